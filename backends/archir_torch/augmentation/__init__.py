"""Augmentation of images: crops, flips, changes of colour, policies, erasing and mixing."""
