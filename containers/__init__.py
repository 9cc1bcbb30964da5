"""The images in which flows run kernels, on cpu, gpu and tpu; a bare Python builds and runs them."""
