"""README's pictures: made by the program on scripted history, and checked by the tests."""
