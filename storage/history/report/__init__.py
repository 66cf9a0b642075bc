"""Tables of history as one page that can be sent to a colleague."""
