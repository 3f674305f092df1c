"""One file a command. Heavy rooms are imported by the commands that need them."""
