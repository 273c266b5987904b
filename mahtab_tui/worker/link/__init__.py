"""The connection to the host, also when its screen is gone or it is another machine."""
