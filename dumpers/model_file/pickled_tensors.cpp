// SPDX-License-Identifier: Apache-2.0
#include "dumpers/model_file/pickled_tensors.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <utility>
#include <variant>

#include "core/error.h"

namespace repro_check::model_file {
namespace {

struct Item;
using Items = std::vector<Item>;

struct Nothing {};
struct Mark {};
/// An object of a class that is not known, or what a function that is not known would give.
struct Unknown {
  std::string type;  ///< `numpy.core.multiarray scalar`
};
/// `torch FloatStorage`
struct Name {
  std::string text;
};
struct Storage {
  std::string type;
  std::string entry;
};
/// How deep lists may lie in each other: whatever destroys them recurses.
constexpr int kDeepest = 32;
/// Items of lists that are added to, together: each time such a list is made anew.
constexpr std::size_t kMostCopies = std::size_t{1} << 24U;
/// Of what is held at once, and of a text: one byte of a pickle may ask for a copy of either.
constexpr std::size_t kMostItems = std::size_t{1} << 18U;
constexpr std::size_t kLongestText = 256;
constexpr std::size_t kMostAxes = 64;  // as in PyTorch
struct List {
  std::shared_ptr<Items> items;
  int depth = 0;
  bool is_dict = false;             ///< then the items are a key, its value, the next key
  std::shared_ptr<bool> is_former;  ///< it was added to, and stands for less than it does by now
};

struct Item {
  std::
      variant<Nothing, Mark, Unknown, std::int64_t, std::string, Name, Storage, List, PickledTensor>
          value;
};

[[noreturn]] void refuse() {
  throw core::usage_error(
      "is pickled in a way that is not understood",
      "save it again with torch.save or torch.jit.save of PyTorch 1.6 or later");
}

template <typename Value>
const Value& as(const Item& item) {
  const auto* value = std::get_if<Value>(&item.value);
  if (value == nullptr) refuse();
  return *value;
}

/// Of `torch FloatStorage`.
core::Dtype dtype_of(std::string_view type) {
  const auto row = std::ranges::find_if(core::kDtypes, [&](const core::DtypeRow& each) {
    return type == "torch " + std::string(each.torch) + "Storage";
  });
  return row == core::kDtypes.end() ? core::Dtype::kUnknown : row->dtype;
}

/// The machine of pickles, as far as LibTorch's writer uses it.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  Item run() {
    while (step()) {
    }
    return pop();
  }

 private:
  std::string_view take(std::size_t size) {
    if (size > bytes_.size()) refuse();
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }

  template <typename Integer>
  Integer integer() {
    Integer value{};
    std::memcpy(&value, take(sizeof(Integer)).data(), sizeof(Integer));
    return value;
  }

  std::int64_t long_integer() {
    const std::string_view digits = take(integer<std::uint8_t>());
    if (digits.size() > sizeof(std::int64_t)) refuse();
    std::int64_t value = !digits.empty() && (digits.back() & 0x80) != 0 ? -1 : 0;
    std::memcpy(&value, digits.data(), digits.size());
    return value;
  }

  std::string text(std::size_t size) {
    if (size > kLongestText) refuse();
    return std::string(take(size));
  }

  /// A long one is no name of anything.
  void push_text(std::size_t size) {
    if (size <= kLongestText) return push(text(size));
    take(size);
    push(Nothing{});
  }

  std::string line() {
    std::string line = text(bytes_.find('\n'));
    take(1);
    return line;
  }

  template <typename Value>
  void push(Value value) {
    stack_.push_back({std::move(value)});
  }

  Item pop() {
    if (stack_.empty() || std::holds_alternative<Mark>(stack_.back().value)) refuse();
    Item item = std::move(stack_.back());
    stack_.pop_back();
    return item;
  }

  Items pop(std::size_t count) {
    Items items;
    for (; count > 0; --count) items.insert(items.begin(), pop());
    return items;
  }

  Items pop_to_mark() {
    Items items;
    while (!stack_.empty() && !std::holds_alternative<Mark>(stack_.back().value)) {
      items.push_back(pop());
    }
    if (stack_.empty()) refuse();
    stack_.pop_back();
    std::ranges::reverse(items);
    return items;
  }

  static int depth_of(const Items& items) {
    int depth = 0;
    for (const Item& item : items) {
      const auto* list = std::get_if<List>(&item.value);
      if (list != nullptr) depth = std::max(depth, list->depth);
    }
    if (depth == kDeepest) refuse();
    return depth + 1;
  }

  void push_list(Items items, bool is_dict = false) {
    const int depth = depth_of(items);
    push(List{
        std::make_shared<Items>(std::move(items)), depth, is_dict, std::make_shared<bool>(false)});
  }

  /// Into a new list: what the memo has of the old one is not to hold itself.
  void append(Items items) {
    const Item to = pop();
    if (std::holds_alternative<Unknown>(to.value)) return stack_.push_back(to);
    const auto& list = as<List>(to);
    Items all = *list.items;
    *list.is_former = true;
    std::ranges::move(items, std::back_inserter(all));
    copies_ += all.size();
    if (copies_ > kMostCopies) refuse();
    push_list(std::move(all), list.is_dict);
  }

  void memoize(std::size_t place) {
    if (stack_.empty()) refuse();
    memo_[place] = stack_.back();
  }

  void recall(std::size_t place) {
    const auto known = memo_.find(place);
    if (known == memo_.end()) refuse();
    const auto* list = std::get_if<List>(&known->second.value);
    if (list != nullptr && *list->is_former) refuse();
    stack_.push_back(known->second);
  }

  /// `('storage', type, entry, device, elements)`
  void push_persistent() {
    const Items items = *as<List>(pop()).items;
    if (items.size() < 3) refuse();
    push(Storage{as<Name>(items[1]).text, as<std::string>(items[2])});
  }

  static std::vector<std::int64_t> sizes_of(const Item& item) {
    std::vector<std::int64_t> sizes;
    const Items& items = *as<List>(item).items;
    if (items.size() > kMostAxes) refuse();
    for (const Item& each : items) sizes.push_back(as<std::int64_t>(each));
    return sizes;
  }

  /// What a call would give, of the functions that are known.
  void reduce() {
    const Items given = *as<List>(pop()).items;
    const std::string function = as<Name>(pop()).text;
    if (function == "collections OrderedDict" && given.empty()) return push_list({}, true);
    if (function.starts_with("torch._utils _rebuild_parameter") && !given.empty()) {
      return stack_.push_back(given[0]);
    }
    if (!function.starts_with("torch._utils _rebuild_tensor") || given.size() < 4) {
      return push(Unknown{function});
    }
    if (is_marked(given)) return push(Unknown{"conjugated tensor"});
    const auto& storage = as<Storage>(given[0]);
    push(PickledTensor{dtype_of_tensor(given, storage),
                       storage.entry,
                       as<std::int64_t>(given[1]),
                       sizes_of(given[2]),
                       sizes_of(given[3])});
  }

  /// Whether it has a conj or neg bit: a dict behind the others says so.
  static bool is_marked(const Items& given) {
    const auto* bits = given.size() < 7 ? nullptr : std::get_if<List>(&given.back().value);
    return bits != nullptr && !bits->items->empty();
  }

  /// The third form names the dtype itself, where no class of storages is of it.
  static core::Dtype dtype_of_tensor(const Items& given, const Storage& storage) {
    const auto* name = given.size() < 7 ? nullptr : std::get_if<Name>(&given[6].value);
    if (name == nullptr) return dtype_of(storage.type);
    return core::parse_dtype(name->text.substr(name->text.find(' ') + 1))
        .value_or(core::Dtype::kUnknown);
  }

  /// One opcode. @return false for the last one
  bool step();
  // Each is false for an opcode of another kind.
  bool skips_or_recalls(unsigned char code);
  bool reads_value(unsigned char code);
  bool builds(unsigned char code);

  std::string_view bytes_;
  std::size_t copies_ = 0;
  Items stack_;
  std::map<std::size_t, Item> memo_;
};

bool Reader::step() {
  const auto code = static_cast<unsigned char>(take(1).front());
  if (code == '.') return false;
  if (!skips_or_recalls(code) && !reads_value(code) && !builds(code)) refuse();
  if (stack_.size() > kMostItems || memo_.size() > kMostItems) refuse();
  return true;
}

bool Reader::skips_or_recalls(unsigned char code) {
  switch (code) {
    case 0x80:  // PROTO
      take(1);
      return true;
    case 0x95:  // FRAME
      take(8);
      return true;
    case 'q':
      memoize(integer<std::uint8_t>());
      return true;
    case 'r':
      memoize(integer<std::uint32_t>());
      return true;
    case 0x94:  // MEMOIZE
      memoize(memo_.size());
      return true;
    case 'h':
      recall(integer<std::uint8_t>());
      return true;
    case 'j':
      recall(integer<std::uint32_t>());
      return true;
    default:
      return false;
  }
}

bool Reader::reads_value(unsigned char code) {
  switch (code) {
    case 'c': {
      const std::string module = line();
      push(Name{module + " " + line()});
      return true;
    }
    case 'X':
      push_text(integer<std::uint32_t>());
      return true;
    case 0x8c:  // SHORT_BINUNICODE
      push_text(integer<std::uint8_t>());
      return true;
    case 'J':
      push(static_cast<std::int64_t>(integer<std::int32_t>()));
      return true;
    case 'K':
      push(static_cast<std::int64_t>(integer<std::uint8_t>()));
      return true;
    case 'M':
      push(static_cast<std::int64_t>(integer<std::uint16_t>()));
      return true;
    case 0x8a:  // LONG1
      push(long_integer());
      return true;
    case 'G':
      take(sizeof(double));
      push(Nothing{});
      return true;
    case 0x88:  // NEWTRUE
    case 0x89:  // NEWFALSE
    case 'N':
      push(Nothing{});
      return true;
    default:
      return false;
  }
}

bool Reader::builds(unsigned char code) {
  switch (code) {
    case '(':
      push(Mark{});
      return true;
    case ')':
    case ']':
      push_list({});
      return true;
    case '}':
      push_list({}, true);
      return true;
    case 't':
    case 'l':
      push_list(pop_to_mark());
      return true;
    case 0x85:  // TUPLE1
    case 0x86:  // TUPLE2
    case 0x87:  // TUPLE3
      push_list(pop(code - 0x84U));
      return true;
    case 'a':
      append(pop(1));
      return true;
    case 'e':
    case 'u':
      append(pop_to_mark());
      return true;
    case 's':
      append(pop(2));
      return true;
    case 'b':  // BUILD
      pop();
      return true;
    case 0x81:  // NEWOBJ
      push(Unknown{as<Name>(pop(2).front()).text});
      return true;
    case 'Q':
      push_persistent();
      return true;
    case 'R':
      reduce();
      return true;
    case 0x93: {  // STACK_GLOBAL
      const Items items = pop(2);
      push(Name{as<std::string>(items[0]) + " " + as<std::string>(items[1])});
      return true;
    }
    default:
      return false;
  }
}

std::string below(const std::string& path, const std::string& key) {
  return path.empty() ? key : path + "." + key;
}

std::string key_of(const Item& item) {
  if (const auto* number = std::get_if<std::int64_t>(&item.value)) return std::to_string(*number);
  return as<std::string>(item);
}

/// The tensors in an item, and below it.
class Collection {
 public:
  void add(const Item& item, const std::string& path) {
    // One list may stand in another twice, and that in a third one.
    if (++visited_ > kMostItems) refuse();
    if (const auto* tensor = std::get_if<PickledTensor>(&item.value)) {
      found.tensors.push_back({path, *tensor});
    } else if (const auto* unknown = std::get_if<Unknown>(&item.value)) {
      found.left_out.push_back(unknown->type);
    } else if (const auto* list = std::get_if<List>(&item.value)) {
      const Items& items = *list->items;
      const std::size_t stride = list->is_dict ? 2 : 1;
      for (std::size_t i = 0; i + stride <= items.size(); i += stride) {
        add(items[i + stride - 1],
            below(path, list->is_dict ? key_of(items[i]) : std::to_string(i)));
      }
    }
  }

  PickledObject found;

 private:
  std::size_t visited_ = 0;
};

/// What `read` gives; errors have the origin before them.
template <typename Read>
auto with_origin(const std::string& origin, const Read& read) {
  try {
    return read();
  } catch (const core::Error& error) {
    throw core::usage_error(origin + ": " + error.what(), error.hint());
  }
}

}  // namespace

PickledObject read_pickled_object(std::string_view pickle, const std::string& origin) {
  return with_origin(origin, [&] {
    Collection collection;
    collection.add(Reader(pickle).run(), "");
    return std::move(collection.found);
  });
}

std::vector<PickledTensor> read_pickled_tensors(std::string_view pickle,
                                                const std::string& origin) {
  return with_origin(origin, [&] {
    std::vector<PickledTensor> tensors;
    const Item all = Reader(pickle).run();
    for (const Item& item : *as<List>(all).items) {
      const auto* tensor = std::get_if<PickledTensor>(&item.value);
      tensors.push_back(tensor == nullptr ? PickledTensor() : *tensor);
    }
    return tensors;
  });
}

}  // namespace repro_check::model_file
