// SPDX-License-Identifier: Apache-2.0
#include "core/text/secrets.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "core/trace/run_manifest.h"

namespace repro_check::core {
namespace {

using Words = std::vector<std::string>;

TEST_CASE("names that look like secrets") {
  for (const char* name : {"MY_TOKEN",
                           "HF_TOKEN",
                           "--api-key",
                           "apikey",
                           "AWS_ACCESS_KEY_ID",
                           "PGPASSWORD",
                           "passwd",
                           "client.secret",
                           "GOOGLE_APPLICATION_CREDENTIALS",
                           "Authorization",
                           "--oauth",
                           "COOKIE",
                           "sessionCookie",
                           "--max-tokens-key"}) {
    CAPTURE(name);
    CHECK(is_secret_name(name));
  }
  for (const char* name : {"--lr",
                           "--tokenizer",
                           "TOKENIZERS_PARALLELISM",
                           "--max-tokens",
                           "--max_new_tokens",
                           "--num-key-value-heads",
                           "--keypoints",
                           "OMP_NUM_THREADS",
                           "--seed"}) {
    CAPTURE(name);
    CHECK_FALSE(is_secret_name(name));
  }
  for (const std::string_view name : known_variables()) {
    CAPTURE(name);
    CHECK_FALSE(is_secret_name(name));
  }
}

TEST_CASE("words of a command line without secrets") {
  const auto hidden = [](const Words& words) { return without_secrets(words); };
  CHECK(hidden({"python", "train.py", "--api-key", "K 1", "--lr", "0.1"}) ==
        Words{"python", "train.py", "--api-key", "<set>", "--lr", "0.1"});
  CHECK(hidden({"--api-key=K 1", "MY_TOKEN=K = 1", "x=1"}) ==
        Words{"--api-key=<set>", "MY_TOKEN=<set>", "x=1"});
  CHECK(hidden({"--use-auth", "--lr", "-0.1", "--password", "-x"}) ==
        Words{"--use-auth", "--lr", "-0.1", "--password", "<set>"});
  CHECK(hidden({"--set", "/env/MY_TOKEN=K"}) == Words{"--set", "/env/MY_TOKEN=<set>"});
  CHECK(hidden({"--tokenizer", "bert"}) == Words{"--tokenizer", "bert"});
}

TEST_CASE("texts without secrets") {
  const auto check = [](const char* text, const char* expected) {
    CHECK(without_secrets(text) == expected);
  };
  check("MY_TOKEN=K python a.py --api-key K --lr 1",
        "MY_TOKEN=<set> python a.py --api-key <set> --lr 1");
  check("export MY_TOKEN='a b'; run", "export MY_TOKEN='<set>'; run");
  check("MY_TOKEN=a\\ b run", "MY_TOKEN=<set> run");
  check("-H \"Authorization: Bearer K\" x", "-H \"Authorization: <set>\" x");
  check(R"({"password": "K", "x": 1})", R"({"password": "<set>", "x": 1})");
  check(R"(["--api-key", "K"])", R"(["--api-key", "<set>"])");
  check(R"(["--api-key","K"])", R"(["--api-key","<set>"])");
  check("api_key = 'K'", "api_key = '<set>'");
  check("if key == 1: pass", "if key == 1: pass");
  check("the key is lost", "the key is lost");
  check("--token", "--token");
  check("--token=", "--token=");
  check("", "");
}

TEST_CASE("names of a command line alone") {
  const Words names = names_alone({"/usr/bin/python3",
                                   "train.py",
                                   "--api-key",
                                   "K",
                                   "--lr=0.1",
                                   "-pK",
                                   "FOO=bar",
                                   "bm9ib2R5==",
                                   "--password",
                                   "-x"});
  CHECK(names == Words{"python3",
                       "<set>",
                       "--api-key",
                       "<set>",
                       "--lr=<set>",
                       "-p",
                       "FOO=<set>",
                       "<set>",
                       "--password",
                       "<set>"});
  CHECK(names_alone(names) == names);
}

TEST_CASE("a manifest holds no secrets unless that is asked for") {
  RunManifest manifest;
  manifest.model_method = kProgramMethod;
  manifest.model_path = "python --api-key two words";
  manifest.configuration =
      R"({"program":{"command":["python","--api-key","two words"]},"env":{"MY_TOKEN":"K","X":"1"}})";
  manifest.processes.push_back({"proc-1", "exec", "curl --token K", 0, false});
  const RunManifest read = manifest_from_json_text(to_json_text(manifest), "a");
  CHECK(read.model_path == "python --api-key <set>");
  CHECK(
      read.configuration ==
      R"({"program":{"command":["python","--api-key","<set>"]},"env":{"MY_TOKEN":"<set>","X":"1"}})");
  CHECK(read.processes.front().command_line == "curl --token <set>");

  std::string& configuration = manifest.configuration;
  configuration.insert(configuration.size() - 1, R"(,"dump":{"keep_values":true})");
  const RunManifest kept = manifest_from_json_text(to_json_text(manifest), "a");
  CHECK(kept.model_path == manifest.model_path);
  CHECK(kept.configuration == configuration);
}

}  // namespace
}  // namespace repro_check::core
