// expect: no viable conversion|could not convert|conversion from
#include <lacuna/core/tensor_view.hpp>

lacuna::tensor_view<float, 4> writable(lacuna::tensor_view<float const, 4> const& v) { return v; }
