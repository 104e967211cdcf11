#pragma once
#include <lacuna/core/element.hpp>
#include <lacuna/rope/rope_table.hpp>

namespace lacuna {

/// Writes a head turned to `position`, which the table has, as fp32. Members of the team share the pairs.
LACUNA_ANY_TEAM
template <class Team, class T>
LACUNA_HD void rotate_row(Team& team, rope_table const& table, index_t position, T const* from, int key_dim, float* to) {
  float const *const cosine = table.cosines_at(position), *const sine = table.sines_at(position);
  for (int i = team.rank(); i < table.pairs(); i += team.size()) {
    float const a = to_float(from[table.first_of(i)]), b = to_float(from[table.second_of(i)]);
    to[table.first_of(i)] = a * cosine[i] - b * sine[i];
    to[table.second_of(i)] = a * sine[i] + b * cosine[i];
  }
  for (int d = table.dim + team.rank(); d < key_dim; d += team.size()) to[d] = to_float(from[d]);
}

/// Product of a turned query and a key that is turned to `position` on the way.
template <class T>
LACUNA_HD float rotated_dot(rope_table const& table, index_t position, float const* q, T const* k, int key_dim) {
  float const *const cosine = table.cosines_at(position), *const sine = table.sines_at(position);
  float dot = 0;
  for (int i = 0; i < table.pairs(); ++i) {
    float const a = to_float(k[table.first_of(i)]), b = to_float(k[table.second_of(i)]);
    dot += q[table.first_of(i)] * (a * cosine[i] - b * sine[i]) + q[table.second_of(i)] * (a * sine[i] + b * cosine[i]);
  }
  for (int d = table.dim; d < key_dim; ++d) dot += q[d] * to_float(k[d]);
  return dot;
}

template <class T>
LACUNA_HD float plain_dot(float const* q, T const* k, int key_dim) {
  float dot = 0;
  for (int d = 0; d < key_dim; ++d) dot += q[d] * to_float(k[d]);
  return dot;
}

}  // namespace lacuna
