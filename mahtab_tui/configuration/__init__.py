"""The settings as a person sees and changes them: values as text, and the files that keep them."""
