// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <string_view>
#include <utility>

#include "cmd/extract/extract.h"
#include "cmd/extract/extract_literal.h"
#include "cmd/render/text.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor_view.h"
#include "core/text/printable.h"

namespace repro_check::cmd {
namespace {

/// A Python string literal. Names come from a file: nothing but letters goes through as it is.
std::string string_literal(std::string_view text) {
  std::string literal = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte > 0x7e || c == '"' || c == '\\') {
      literal += fmt::format("\\x{:02x}", byte);
    } else {
      literal += c;
    }
  }
  return literal + "\"";
}

std::string number(double value) {
  if (std::isnan(value)) return "float(\"nan\")";
  if (std::isinf(value)) return value > 0 ? "float(\"inf\")" : "float(\"-inf\")";
  const std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

constexpr std::array<std::string_view, 4> kMemoryFormats{
    "contiguous_format", "preserve_format", "channels_last", "channels_last_3d"};
constexpr std::array<std::string_view, 6> kLayouts{
    "strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"};

std::string symbol(const std::string& name) {
  const auto dtype = core::parse_dtype(name);
  const bool known = (dtype && core::dtype_name(*dtype) == name) ||
                     std::ranges::find(kMemoryFormats, name) != kMemoryFormats.end() ||
                     std::ranges::find(kLayouts, name) != kLayouts.end();
  return known ? "torch." + name : "torch.device(" + string_literal(name) + ")";
}

constexpr LiteralDialect kPython{
    .truth = [](bool value) { return std::string(value ? "True" : "False"); },
    .integer = [](std::int64_t value) { return std::to_string(value); },
    .real = [](double value) { return number(value); },
    .complex =
        [](std::complex<double> value) {
          return "complex(" + number(value.real()) + ", " + number(value.imag()) + ")";
        },
    .text = [](const std::string& value) { return string_literal(value); },
    .symbol = [](const std::string& name) { return symbol(name); },
    .tensor =
        [](const core::TensorRecord& tensor) {
          return tensor.state == core::ContentState::kUndefined
                     ? std::string("None")
                     : "tensors[" + string_literal(tensor.slot) + "]";
        },
    .list = [](const std::string& items) { return "[" + items + "]"; },
    .none = "None"};

std::string tuple(const std::vector<std::int64_t>& numbers) {
  std::string text = "(";
  for (const std::int64_t n : numbers) text += fmt::format("{}, ", n);
  if (numbers.size() > 1) text.resize(text.size() - 2);
  if (numbers.size() == 1) text.pop_back();
  return text + ")";
}

/// Settings of the run that Python can make, by the recorder's names; {} is on or off.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kSwitches{
    {{"cudnn.benchmark", "torch.backends.cudnn.benchmark = {}"},
     {"cudnn.deterministic", "torch.backends.cudnn.deterministic = {}"},
     {"tf32.cublas", "torch.backends.cuda.matmul.allow_tf32 = {}"},
     {"tf32.cudnn", "torch.backends.cudnn.allow_tf32 = {}"},
     {"flush_denormal", "torch.set_flush_denormal({})"},
     {"deterministic_fill_uninitialized_memory",
      "torch.utils.deterministic.fill_uninitialized_memory = {}"}}};

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

std::string settings(const core::RunManifest& manifest) {
  std::string text;
  for (const core::Setting& setting : manifest.settings) {
    if (setting.name == "threads.intra_op" && is_number(setting.used)) {
      text += "torch.set_num_threads(" + setting.used + ")\n";
    }
    if (setting.name == "deterministic_algorithms" && setting.used != "off") {
      text += fmt::format("torch.use_deterministic_algorithms(True, warn_only={})\n",
                          setting.used == "warn" ? "True" : "False");
    }
    for (const auto& [name, statement] : kSwitches) {
      const bool on = setting.used == "on";
      if (setting.name != name || (!on && setting.used != "off")) continue;
      text += fmt::format(fmt::runtime(statement), on ? "True" : "False") + "\n";
    }
  }
  return text;
}

std::string environment(const core::RunManifest& manifest) {
  constexpr std::string_view kPrefix = "env.";
  std::string text;
  for (const core::Setting& setting : manifest.settings) {
    if (!setting.name.starts_with(kPrefix) || setting.used == "unset") continue;
    text += fmt::format("os.environ[{}] = {}\n",
                        string_literal(setting.name.substr(kPrefix.size())),
                        string_literal(setting.used));
  }
  return text;
}

std::string header(const Reproducer& reproducer) {
  const core::OpRecord& op = reproducer.op;
  const std::string place = place_text(op.site.get());
  std::string text = "#!/usr/bin/env python3\n";
  text += fmt::format("# {}, by itself{}.\n",
                      core::printable(op.op->full_name()),
                      place.empty() ? "" : ": it was called in " + place);
  for (const core::EnvironmentFact& fact : reproducer.manifest.environment) {
    if (fact.name != "libtorch.version" && fact.name != "cpu.model") continue;
    text += fmt::format("# {}: {}\n", fact.name, core::printable(fact.value));
  }
  return text + fmt::format(
                    "#\n# Needs torch and numpy, and {}/ beside it. Usage: {} [CALLS]\n"
                    "# Exit code 0: every call gave the recorded result; 1: not.\n",
                    core::printable(reproducer.data),
                    core::printable(reproducer.script));
}

constexpr std::string_view kLoad = R"(
DATA = pathlib.Path(__file__).resolve().parent / DATA_NAME


def load(name, dtype):
    """The elements of a file, in one dimension; dtypes that NumPy lacks are stored as bytes."""
    raw = numpy.load(DATA / name).reshape(-1).view(numpy.uint8)
    return torch.from_numpy(raw.copy()).view(dtype)

)";

constexpr std::string_view kMain = R"(

def flatten(result):
    if isinstance(result, (list, tuple)):
        return [tensor for item in result for tensor in flatten(item)]
    return [result] if result is None or isinstance(result, torch.Tensor) else []


def call():
    tensors = make_tensors()
    positional, named = make_arguments(tensors)
    seed()
    result = OPERATOR(*positional, **named)
    outputs = dict(zip(RESULT_SLOTS, flatten(result)))
    return {slot: outputs.get(slot, tensors.get(slot)) for slot in EXPECTED}


def bits(tensor):
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def wide(tensor):
    kind = torch.complex128 if tensor.is_complex() else torch.float64
    return tensor.detach().cpu().to(kind).reshape(-1)


def main():
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    seen = {}
    good = True
    for number in range(calls):
        outputs = call()
        digest = hashlib.sha256(b"".join(bits(t) for t in outputs.values() if t is not None))
        seen[digest.hexdigest()] = seen.get(digest.hexdigest(), 0) + 1
        if seen[digest.hexdigest()] > 1:
            continue
        for slot, expected in EXPECTED.items():  # a slot without a file was not stored
            if expected is None:
                continue
            if outputs[slot] is None:
                print(f"call {number} output {slot}: there is none")
                good = False
                continue
            recorded = load(*expected)
            same = bits(outputs[slot]) == bits(recorded)
            good = good and same
            gap = (wide(outputs[slot]) - wide(recorded)).abs()
            worst = gap.max().item() if gap.numel() else 0.0
            print(f"call {number} output {slot}: "
                  + ("as recorded" if same else f"not as recorded, max difference {worst:.9g}"))
    print(f"{len(seen)} distinct results in {calls} calls")
    for digest, count in seen.items():
        print(f"  {digest[:16]} {count} calls")
    return 0 if good and len(seen) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
)";

std::string tensors(const Reproducer& reproducer) {
  std::string text = "\ndef make_tensors():\n    tensors = {}\n";
  for (std::size_t i = 0; i < reproducer.storages.size(); ++i) {
    const core::InputStorage& storage = reproducer.storages[i];
    text += fmt::format("    storage = load({}, torch.{})",
                        string_literal(reproducer.files[i]),
                        core::dtype_name(storage.dtype));
    const std::string& device = reproducer.op.tensors.at(storage.tensors.front()).device;
    text += device == "cpu" ? "\n" : ".to(" + string_literal(device) + ")\n";
    for (const std::uint32_t member : storage.tensors) {
      const core::TensorRecord& tensor = reproducer.op.tensors[member];
      const bool empty = core::element_count(tensor.shape) == 0;
      text += fmt::format("    tensors[{}] = storage.as_strided({}, {}, {})\n",
                          string_literal(tensor.slot),
                          tuple(tensor.shape),
                          tuple(tensor.strides),
                          empty ? 0 : tensor.storage_offset - storage.first);
    }
  }
  return text + "    return tensors\n\n";
}

/// `self` goes by position, since a method's own first argument has that name; the others by name.
std::string arguments(const Reproducer& reproducer) {
  std::string positional;
  std::string named;
  for (const core::Argument& argument : reproducer.op.arguments) {
    const std::string value = literal(reproducer.op, argument.value, kPython);
    if (argument.name == "self" && named.empty()) {
      positional = value;
    } else {
      named += fmt::format("        {}: {},\n", string_literal(argument.name), value);
    }
  }
  return fmt::format("\ndef make_arguments(tensors):\n    return [{}], {{{}{}}}\n\n",
                     positional,
                     named.empty() ? "" : "\n" + named,
                     named.empty() ? "" : "    ");
}

std::string seeding(const Reproducer& reproducer) {
  const auto& use = reproducer.op.generator;
  if (!use) return "\ndef seed():\n    pass  # nothing was drawn\n\n";
  std::string text = fmt::format("\ndef seed():\n    torch.manual_seed({})\n", use->seed);
  if (reproducer.drawn) {
    if (*reproducer.drawn > 0) {
      text +=
          fmt::format("    torch.empty({}, dtype=torch.uint8).random_()  # drawn before the call\n",
                      *reproducer.drawn);
    }
  } else {
    text += fmt::format("    # the generator of {} stood at offset {}\n",
                        core::printable(use->device),
                        use->position_before);
  }
  return text + "\n";
}

std::string expected(const Reproducer& reproducer) {
  std::string slots;
  for (const std::string& slot : reproducer.result_slots) {
    slots += (slots.empty() ? "" : ", ") + string_literal(slot);
  }
  std::string text = "\nRESULT_SLOTS = [" + slots + "]\nEXPECTED = {\n";
  for (const ExpectedOutput& output : reproducer.outputs) {
    text += fmt::format("    {}: ", string_literal(output.slot));
    text += output.file.empty() ? "None,\n"
                                : fmt::format("({}, torch.{}),\n",
                                              string_literal(output.file),
                                              core::dtype_name(output.tensor->dtype));
  }
  return text + "}\n";
}

}  // namespace

std::string python_reproducer(const Reproducer& reproducer) {
  const core::OperatorInfo& op = *reproducer.op.op;
  const std::size_t colons = op.name.find("::");
  const std::string library = colons == std::string::npos ? "aten" : op.name.substr(0, colons);
  const std::string name = colons == std::string::npos ? op.name : op.name.substr(colons + 2);
  std::string text = header(reproducer);
  text += "import hashlib\nimport os\nimport pathlib\nimport sys\n\n";
  text += environment(reproducer.manifest);
  text += "\nimport numpy\nimport torch\n\n" + settings(reproducer.manifest);
  text += "torch.set_grad_enabled(False)\n";
  text += fmt::format("OPERATOR = getattr(getattr(getattr(torch.ops, {}), {}), {})\n",
                      string_literal(library),
                      string_literal(name),
                      string_literal(op.overload.empty() ? "default" : op.overload));
  text += "DATA_NAME = " + string_literal(reproducer.data) + "\n";
  text += kLoad;
  text += tensors(reproducer) + arguments(reproducer) + seeding(reproducer) + expected(reproducer);
  return text + std::string(kMain);
}

}  // namespace repro_check::cmd
