// SPDX-License-Identifier: Apache-2.0
#include "dumpers/model_file/model_constants.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "dumpers/model_file/exported_file.h"
#include "dumpers/model_file/model_file.h"
#include "dumpers/model_file/pickled_tensors.h"

namespace repro_check::model_file {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostText = std::size_t{64} << 20U;
constexpr std::size_t kMostBytes = std::size_t{256} << 20U;

/// What gives a tensor on as it is, or in another shape or dtype.
bool is_passed_on(std::string_view op) {
  constexpr std::array<std::string_view, 24> kSame{
      "lift_fresh", "lift_fresh_copy", "to",     "_to_copy",  "detach",     "detach_",
      "alias",      "clone",           "t",      "transpose", "permute",    "view",
      "reshape",    "contiguous",      "expand", "unsqueeze", "unsqueeze_", "squeeze",
      "flatten",    "type_as",         "slice",  "numpy_T",   "expand_as",  "_unwrap_optional"};
  return std::ranges::find(kSame, op) != kSame.end();
}

/// What says something of a tensor, and makes nothing of it.
bool is_no_use(std::string_view op) { return op == "_assert_tensor_metadata"; }

std::string last_part(std::string_view name, char separator) {
  return std::string(name.substr(name.rfind(separator) + 1));
}

/// The first elements of a tensor whose storage is given; empty where they are not all there.
std::vector<std::byte> elements_of(const PickledTensor& tensor,
                                   const std::string& storage,
                                   std::size_t most) {
  const std::size_t size = core::element_size(tensor.dtype);
  if (size == 0 || tensor.shape.size() != tensor.strides.size() || tensor.offset < 0) return {};
  // What lies further away is in no file, and would overflow.
  constexpr std::int64_t kFarthest = std::int64_t{1} << 40U;
  const auto is_far = [](std::int64_t stride) { return stride < 0 || stride > kFarthest; };
  if (tensor.offset > kFarthest || std::ranges::any_of(tensor.strides, is_far)) return {};
  std::size_t count = 1;
  for (const std::int64_t each : tensor.shape) {
    if (each <= 0) return {};
    count = std::min(most, count * static_cast<std::size_t>(std::min<std::int64_t>(each, 1 << 24)));
  }
  std::vector<std::byte> bytes;
  std::vector<std::int64_t> place(tensor.shape.size());
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t at = tensor.offset;
    for (std::size_t axis = 0; axis < place.size(); ++axis)
      at += place[axis] * tensor.strides[axis];
    if (at < 0 || (static_cast<std::size_t>(at) + 1) * size > storage.size()) return {};
    const char* element = storage.data() + static_cast<std::size_t>(at) * size;
    const auto* begin = reinterpret_cast<const std::byte*>(element);
    bytes.insert(bytes.end(), begin, begin + size);
    for (std::size_t axis = place.size(); axis-- > 0 && ++place[axis] == tensor.shape[axis];) {
      place[axis] = 0;
    }
  }
  return bytes;
}

/// The uses of constants in the code of a TorchScript file, which is text.
class CodeScan {
 public:
  explicit CodeScan(std::vector<ModelConstant>& constants) {
    for (ModelConstant& each : constants) constants_.emplace(each.name, &each);
  }

  /// @param file  its name in the archive
  void see(const std::string& file, std::string_view code) {
    for (std::uint32_t line = 1; !code.empty(); ++line) {
      const std::size_t end = std::min(code.find('\n'), code.size());
      place_ = file + ":" + std::to_string(line);
      see_line(code.substr(0, end));
      code.remove_prefix(std::min(end + 1, code.size()));
    }
  }

 private:
  struct Call {
    std::string op;  ///< empty for what is no call
    std::uint32_t argument = 0;
  };

  void see_line(std::string_view line) {
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin == std::string_view::npos) return;
    line.remove_prefix(begin);
    if (line.starts_with("def ")) names_.clear();
    target_.clear();
    const std::size_t equals = line.find(" = ");
    const bool assigns = equals != std::string_view::npos && is_name(line.substr(0, equals));
    if (assigns) {
      target_ = line.substr(0, equals);
      line.remove_prefix(equals + 3);
      names_.erase(target_);
    }
    calls_.clear();
    std::string token;
    for (std::size_t at = 0; at < line.size(); ++at) {
      const char c = line[at];
      if (is_of_name(c)) {
        token += c;
        continue;
      }
      if (c == '(') {
        calls_.push_back({last_part(std::exchange(token, ""), '.'), 0});
        continue;
      }
      see_token(std::exchange(token, ""));
      if (c == '[' || c == '{') calls_.push_back({});
      if ((c == ')' || c == ']' || c == '}') && !calls_.empty()) calls_.pop_back();
      if (c == ',' && !calls_.empty()) ++calls_.back().argument;
      if (c == '"' || c == '\'') at = end_of_text(line, at);
    }
    see_token(token);
  }

  static bool is_of_name(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
  }
  static bool is_name(std::string_view text) { return std::ranges::all_of(text, &is_of_name); }

  static std::size_t end_of_text(std::string_view line, std::size_t at) {
    const char quote = line[at];
    for (++at; at < line.size() && line[at] != quote; ++at) {
      if (line[at] == '\\') ++at;
    }
    return at;
  }

  void see_token(const std::string& token) {
    const auto direct = constants_.find(token);
    const auto named = names_.find(token);
    ModelConstant* constant = direct != constants_.end() ? direct->second
                              : named != names_.end()    ? named->second
                                                         : nullptr;
    if (constant == nullptr) return;
    const auto user = std::find_if(calls_.rbegin(), calls_.rend(), [](const auto& call) {
      return !call.op.empty() && (call.argument != 0 || !is_passed_on(call.op));
    });
    if (user != calls_.rend()) {
      constant->uses.push_back({user->op, user->argument, place_});
    } else if (!target_.empty()) {
      names_[target_] = constant;
    }
  }

  std::map<std::string, ModelConstant*, std::less<>> constants_;
  std::map<std::string, ModelConstant*, std::less<>> names_;  ///< of what was made of them
  std::vector<Call> calls_;                                   ///< that are open
  std::string target_;
  std::string place_;
};

std::vector<ModelConstant> read_torchscript(const std::filesystem::path& file, std::size_t most) {
  std::string pickle;
  std::map<std::string, std::string> code;
  visit_entries(file, [&](const std::string& name, const EntryReader& read) {
    if (name.ends_with("/constants.pkl")) pickle = read(kMostText);
    const std::string inside = entry_below(name, "code");
    if (inside.ends_with(".py")) code[inside] = read(kMostText);
  });
  if (pickle.empty()) return {};
  const std::vector<PickledTensor> tensors = read_pickled_tensors(pickle, file.string());
  std::vector<ModelConstant> constants(tensors.size());
  visit_entries(file, [&](const std::string& name, const EntryReader& read) {
    const std::string inside = entry_below(name, "constants");
    if (inside.empty()) return;
    std::optional<std::string> storage;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (inside != "constants/" + tensors[i].storage) continue;
      if (!storage) storage = read(kMostBytes);
      constants[i].bytes = elements_of(tensors[i], *storage, most);
    }
  });
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    constants[i].name = "CONSTANTS.c" + std::to_string(i);
    constants[i].dtype = tensors[i].dtype;
    constants[i].shape = tensors[i].shape;
  }
  CodeScan scan(constants);
  for (const auto& [name, text] : code) scan.see(name, text);
  return constants;
}

/// `model.py:12` of a stack: the innermost frame outside of PyTorch.
std::string line_of_stack(const std::string& stack) {
  for (const core::SourceFrame& frame : frames_of_stack(stack)) {
    if (frame.file.find("/torch/") != std::string::npos) continue;
    return last_part(frame.file, '/') + ":" + std::to_string(frame.line);
  }
  return {};
}

void see_argument(const Json& argument, const auto& visit) {
  if (const auto one = argument.find("as_tensor"); one != argument.end()) {
    visit(one->at("name").get<std::string>());
  }
  for (const char* kind : {"as_tensors", "as_optional_tensors"}) {
    const auto several = argument.find(kind);
    if (several == argument.end()) continue;
    for (const Json& each : *several) {
      const Json& tensor = each.contains("as_tensor") ? each["as_tensor"] : each;
      if (tensor.is_object() && tensor.contains("name")) visit(tensor["name"].get<std::string>());
    }
  }
}

/// @param constants  by the names that the graph has for them
void see_graph(const Json& graph, std::map<std::string, ModelConstant*> constants) {
  for (const Json& node : graph.at("nodes")) {
    std::string op = node.at("target");
    if (op.starts_with("torch.ops.")) op = op.substr(0, op.rfind('.'));
    op = last_part(op, '.');
    const Json& metadata = node.at("metadata");
    for (std::uint32_t place = 0; const Json& input : node.at("inputs")) {
      see_argument(input.at("arg"), [&](const std::string& name) {
        const auto found = constants.find(name);
        if (found == constants.end() || is_no_use(op)) return;
        ModelConstant* constant = found->second;
        if (place == 0 && is_passed_on(op)) {
          for (const Json& output : node.at("outputs")) {
            see_argument(output, [&](const std::string& made) { constants[made] = constant; });
          }
          return;
        }
        const std::string stack = metadata.value("stack_trace", "");
        constant->uses.push_back({op, place, line_of_stack(stack)});
      });
      ++place;
    }
  }
}

std::vector<ModelConstant> read_exported(const std::filesystem::path& file, std::size_t most) {
  const ExportedFile exported = read_exported_file(file);
  std::vector<ModelConstant> constants;
  std::map<std::string, std::size_t> by_name;
  std::map<std::string, std::pair<std::size_t, PickledTensor>> by_entry;
  const Json& signature = exported.model->at("graph_module").at("signature").at("input_specs");
  std::map<std::string, std::string> lifted;  // name in the graph -> name of the constant
  for (const Json& spec : signature) {
    const auto constant = spec.find("tensor_constant");
    if (constant == spec.end()) continue;
    lifted[constant->at("arg").at("name")] = constant->at("tensor_constant_name");
  }
  for (const auto& item : exported.constants->items()) {
    const std::string& name = item.key();
    const bool is_lifted =
        std::ranges::any_of(lifted, [&](const auto& one) { return one.second == name; });
    const Json& meta = item.value().at("tensor_meta");
    if (!is_lifted || !meta.is_object()) continue;
    by_name[name] = constants.size();
    const auto tensor = tensor_of(item.value());
    constants.push_back({name, exported_dtype(meta.at("dtype")), {}, {}, {}});
    for (const Json& each : meta.at("sizes")) constants.back().shape.push_back(each.at("as_int"));
    if (!tensor) continue;
    by_entry.emplace("constants/" + tensor->storage, std::pair(constants.size() - 1, *tensor));
  }
  visit_entries(file, [&](const std::string& name, const EntryReader& read) {
    const auto found = by_entry.find(entry_below(name, "constants"));
    if (found == by_entry.end()) return;
    const auto& [number, tensor] = found->second;
    constants[number].bytes = elements_of(tensor, read(kMostBytes), most);
  });
  std::map<std::string, ModelConstant*> in_graph;
  for (const auto& [name, constant] : lifted) {
    const auto found = by_name.find(constant);
    if (found != by_name.end()) in_graph[name] = &constants[found->second];
  }
  see_graph(exported.model->at("graph_module").at("graph"), std::move(in_graph));
  return constants;
}

}  // namespace

std::vector<ModelConstant> read_model_constants(const std::filesystem::path& file,
                                                std::size_t most) {
  if (require_model(file) == FileKind::kTorchScript) return read_torchscript(file, most);
  try {
    return read_exported(file, most);
  } catch (const Json::exception& error) {
    throw not_as_exported(file, error);
  }
}

}  // namespace repro_check::model_file
