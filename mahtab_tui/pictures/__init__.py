"""Pictures for terminals, whatever interface draws them."""
