"""What a pool holds and what happens in it, recorded from any allocator and drawn in one picture language."""
