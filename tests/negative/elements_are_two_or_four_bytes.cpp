// expect: AttentionElement
#include <lacuna/attention/sparse_attention.hpp>

struct fp8_config : lacuna::attention_defaults<lacuna::fp8_e4m3, 64> {};
