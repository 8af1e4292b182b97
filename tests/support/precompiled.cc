// Carries the precompiled header that all test programs share; dl_test_base() makes it.
int main() {}
