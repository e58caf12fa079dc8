"""The mechanisms, one file each: validate, calibrate, run the kernel, release."""
