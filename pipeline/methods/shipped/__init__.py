"""Methods that come with sweep."""
