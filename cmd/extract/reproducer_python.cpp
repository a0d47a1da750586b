// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "cmd/extract/reproducer.h"
#include "cmd/render/text.h"
#include "core/tensor/dtype.h"
#include "core/text/printable.h"

namespace repro_check::cmd {
namespace {

std::string python_number(double value) {
  if (std::isnan(value)) return "float(\"nan\")";
  if (std::isinf(value)) return value > 0 ? "float(\"inf\")" : "float(\"-inf\")";
  const std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::string python_symbol(const std::string& name) {
  // Names of layouts and memory formats have a `_`, but for one; those of devices have none.
  const auto dtype = core::parse_dtype(name);
  const bool known = (dtype && core::dtype_name(*dtype) == name) || name == "strided" ||
                     name.find('_') != std::string::npos;
  return known ? "torch." + name : "torch.device(" + string_literal(name) + ")";
}

constexpr ReproducerDialect kPython{
    .yes = "True",
    .no = "False",
    .truth = "{}",
    .integer = "{}",
    .real = python_number,
    .complex =
        [](double real, double imaginary) {
          return "complex(" + python_number(real) + ", " + python_number(imaginary) + ")";
        },
    .text = "{}",
    .symbol = python_symbol,
    .tensor = "tensors[{}]",
    .undefined = "None",
    .list = "[{}]",
    .none = "None",
    .dtype = [](core::Dtype dtype) { return fmt::format("torch.{}", core::dtype_name(dtype)); },
    .storage = "    storage = load({}, {}){}\n",
    .move = ".to({})",
    .view = "    tensors[{}] = storage.as_strided({}, {}, {})\n",
    .sizes = "[{}]",
    .threads = "torch.set_num_threads({})\n",
    .strict = "torch.use_deterministic_algorithms(True, warn_only={})\n",
    .seed = "    torch.manual_seed({})\n",
    .skip = "    torch.empty({}, dtype=torch.uint8).random_()  # drawn before the call\n",
    .expected = "    {}: ({}, {}),\n",
    .unstored = "    {}: None,\n",
    .unplaced = "    # the generator of {} stood at offset {}\n"};

/// Settings of the run that Python can make, by the recorder's names; {} is on or off.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kPythonSwitches{
    {{"cudnn.benchmark", "torch.backends.cudnn.benchmark = {}"},
     {"cudnn.deterministic", "torch.backends.cudnn.deterministic = {}"},
     {"tf32.cublas", "torch.backends.cuda.matmul.allow_tf32 = {}"},
     {"tf32.cudnn", "torch.backends.cudnn.allow_tf32 = {}"},
     {"flush_denormal", "torch.set_flush_denormal({})"},
     {"deterministic_fill_uninitialized_memory",
      "torch.utils.deterministic.fill_uninitialized_memory = {}"}}};

std::string python_switches(const core::RunManifest& manifest) {
  std::string text;
  for (const core::Setting& setting : manifest.settings) {
    const auto known = std::ranges::find(kPythonSwitches,
                                         std::string_view(setting.name),
                                         &decltype(kPythonSwitches)::value_type::first);
    const bool on = setting.used == "on";
    if (known == kPythonSwitches.end() || (!on && setting.used != "off")) continue;
    text += fmt::format(fmt::runtime(known->second), on ? "True" : "False") + "\n";
  }
  return text;
}

std::string python_environment(const core::RunManifest& manifest) {
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

constexpr std::string_view kPythonLoad = R"(
DATA = pathlib.Path(__file__).resolve().parent / DATA_NAME


def load(name, dtype):
    """The elements of a file, in one dimension; dtypes that NumPy lacks are stored as bytes."""
    raw = numpy.load(DATA / name).reshape(-1).view(numpy.uint8)
    return torch.from_numpy(raw.copy()).view(dtype)

)";

constexpr std::string_view kPythonMain = R"(

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

/// `self` goes by position, since a method's own first argument has that name; the others by name.
std::string python_arguments(const Reproducer& reproducer) {
  std::string positional;
  std::string named;
  for (const core::Argument& argument : reproducer.op.arguments) {
    const std::string value = value_literal(reproducer.op, argument.value, kPython);
    if (argument.name == "self" && named.empty()) {
      positional = value;
    } else {
      named += fmt::format("        {}: {},\n", string_literal(argument.name), value);
    }
  }
  return fmt::format("    return [{}], {{{}{}}}\n",
                     positional,
                     named.empty() ? "" : "\n" + named,
                     named.empty() ? "" : "    ");
}

}  // namespace

std::string python_reproducer(const Reproducer& reproducer) {
  const core::OperatorInfo& op = *reproducer.op.op;
  const std::size_t colons = op.name.find("::");
  const std::string library = colons == std::string::npos ? "aten" : op.name.substr(0, colons);
  const std::string name = colons == std::string::npos ? op.name : op.name.substr(colons + 2);
  const std::string place = place_text(reproducer.op.site.get());
  const std::string seeds = seed_statements(reproducer, kPython);
  std::string text = fmt::format("#!/usr/bin/env python3\n# {}, by itself{}.\n",
                                 core::printable(op.full_name()),
                                 place.empty() ? "" : ": it was called in " + place);
  text += fact_comments(reproducer, "#");
  text += fmt::format(
      "#\n# Needs torch and numpy, and {}/ beside it. Usage: {} [CALLS]\n"
      "# Exit code 0: every call gave the recorded result; 1: not.\n"
      "import hashlib\nimport os\nimport pathlib\nimport sys\n\n",
      core::printable(reproducer.data),
      core::printable(reproducer.script));
  text += python_environment(reproducer.manifest) + "\nimport numpy\nimport torch\n\n";
  text += setting_statements(reproducer, kPython) + python_switches(reproducer.manifest);
  text += "torch.set_grad_enabled(False)\n";
  text += fmt::format("OPERATOR = getattr(getattr(getattr(torch.ops, {}), {}), {})\n",
                      string_literal(library),
                      string_literal(name),
                      string_literal(op.overload.empty() ? "default" : op.overload));
  text += "DATA_NAME = " + string_literal(reproducer.data) + "\n";
  text += kPythonLoad;
  text += "\ndef make_tensors():\n    tensors = {}\n" + tensor_statements(reproducer, kPython) +
          "    return tensors\n\n\ndef make_arguments(tensors):\n" + python_arguments(reproducer) +
          "\n\ndef seed():\n" + (seeds.empty() ? "    pass  # nothing was drawn\n" : seeds) +
          "\n\nRESULT_SLOTS = [" + slot_literals(reproducer) + "]\nEXPECTED = {\n" +
          expected_statements(reproducer, kPython) + "}\n";
  return text + std::string(kPythonMain);
}

}  // namespace repro_check::cmd
