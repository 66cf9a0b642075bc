"""The programs of the clients, one a language and library."""
