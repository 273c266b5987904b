"""The witness: a process that copies files before the kernel, or a process of it, changes them."""
