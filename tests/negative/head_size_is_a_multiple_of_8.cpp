// expect: key_dim must be a multiple of 8 up to 256
#include <lacuna/attention/sparse_attention.hpp>

struct odd_dim : lacuna::attention_defaults<float, 63> {};
lacuna::sparse_attention<odd_dim> attention;
