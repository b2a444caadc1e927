"""What compiles and launches: kernels see byte buffers, offsets and plans, never a Tensor."""
