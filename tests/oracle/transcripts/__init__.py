"""One module for each area. See tests.oracle for how to write one."""
