#pragma once

#include <string>
#include <vector>

#include "attention.hpp"
#include "png.hpp"

namespace llm {

/// Draws, for some heads of one layer, what each pattern keeps over the head's true attention: a row of panels a pattern, a column a head.
/// Queries run down, keys to the right. Dark is much attention; what the pattern keeps is warm, what it leaves out is blue.
class picture {
 public:
  picture(lacuna::host_executor const& exec, std::vector<pattern_spec> patterns);

  /// The layer whose tensors are worth showing, of `layers`.
  static int layer_of(int layers) { return layers / 2; }

  /// Draws these tensors over whatever was drawn before.
  void draw(int layer, attention_tensors const& tensors);

  /// The bytes of a PNG file; empty before draw().
  std::string png() const;

 private:
  void draw_panel(int x, int y, visited_cells const& kept, std::vector<float> const& weights);

  lacuna::host_executor exec_;
  attention attention_;
  std::vector<pattern_spec> patterns_;
  image image_;
};

/// Mean softmax weight times position in each cell of a head, so that 1 is even attention. [rows, columns] of `visited_cells`
std::vector<float> attention_cells(lacuna::host_executor const& exec, attention_tensors const& tensors, int head, std::int64_t cell);

}  // namespace llm
