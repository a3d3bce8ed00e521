// The other end of the subject protocol (version 1): any subject of this program behind a stream of
// requests. `kvconform serve NAME` puts cuda:gpu into a process of its own this way, since a CUDA
// context does not survive an error; it also is a known good partner for those who write a client.
//
//   ProtocolServer server(make_subject("reference"));
//   send(std::cout, server.answer(R"({"request": "hello", "protocol": 1})"));
//
// What is wrong with a request is answered `invalid`; a broken subject or an error of the harness
// `failed`. Nothing throws but std::bad_alloc.
#pragma once

#include <iosfwd>
#include <memory>
#include <nlohmann/json.hpp>  // replies are looked into and changed by those who hold them
#include <string>

#include "properties/subject.h"

namespace kvconform {

struct Reply {
  nlohmann::json fields = nlohmann::json::object();
  std::string payload;  ///< little-endian binary32
};

class ProtocolServer {
 public:
  explicit ProtocolServer(std::unique_ptr<Subject> subject) : subject_(std::move(subject)) {}

  Reply answer(const std::string& line);
  const std::string& last_request() const { return last_request_; }  ///< "" if it had no name
  int loads() const { return loads_; }                               ///< models loaded so far

 private:
  Reply answer_request(const nlohmann::json& request);

  std::unique_ptr<Subject> subject_;
  std::string last_request_;
  int loads_ = 0;
};

/// Writes the line and the payload, and flushes.
void send(std::ostream& out, const Reply& reply);

/// Answers line by line until `quit` or the end of the input.
void serve(std::unique_ptr<Subject> subject, std::istream& in, std::ostream& out);

}  // namespace kvconform
