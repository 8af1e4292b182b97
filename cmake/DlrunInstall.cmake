# What `cmake --install` puts where, and the package that find_package(dlrun) reads.
