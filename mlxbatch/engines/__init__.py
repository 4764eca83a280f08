"""One module or package per engine family; importing this package imports none of them."""
