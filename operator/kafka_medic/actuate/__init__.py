"""One effect each, small and idempotent. Nothing here decides anything."""
