"""What integrates out, in which order, and the proof."""
