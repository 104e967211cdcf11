// What users compile anyway: standard headers and a few templates. Its compile time is the measure of compile_time.* (see compile_time.cmake).
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <random>
#include <regex>
#include <string>
#include <thread>

int main(int argc, char** argv) {
  std::map<std::string, std::function<bool(std::string const&)>> found;
  for (int i = 0; i < argc; ++i) found[argv[i]] = [e = std::regex(argv[i])](std::string const& s) { return std::regex_match(s, e); };
  std::mt19937_64 engine;
  std::jthread const other([&] { std::cout << engine() << found.size(); });
  return static_cast<int>(std::count_if(found.begin(), found.end(), [](auto const& f) { return f.second("x"); }));
}
