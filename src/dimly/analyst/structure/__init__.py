"""What people have in common: coordinates, denoising, whether there is structure at all, maps."""
