"""What every check ends with."""


def verdict(faults):
    """Prints them, one per line; the exit code."""
    for fault in faults:
        print(fault)
    return 1 if faults else 0
