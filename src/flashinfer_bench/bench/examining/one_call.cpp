// Makes one call of a function that a library exports through tvm-ffi, without Python around it: sanitizers and
// valgrind then see the solution and nothing else. What to call stands in a text file, a line for each thing:
//
//   tensor NAME CODE BITS LANES FILE NBYTES NDIM DIM...   one argument; FILE is `-` for an output, left as malloc gave it
//   int NAME VALUE | float NAME VALUE | bool NAME VALUE | none NAME
//   call SYMBOL STATE COUNT NAME...                       STATE: `-`, `pass` (what the call before returned, first),
//                                                         `keep` (keep what it returns), `both`
//   check NAME                                            every byte of it must have been written
//
// Usage: one_call LIBRARY CALL-FILE. Exits with 3 where the function raised, 4 where the file or library is at fault.

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <tvm/ffi/c_api.h>

namespace {

constexpr int kRaised = 3, kOurs = 4;
constexpr size_t kAlignment = 64;

struct Argument {
  TVMFFIAny value{};
  DLTensor tensor{};
  std::vector<int64_t> shape, strides;
  size_t bytes = 0;
};

[[noreturn]] void give_up(const std::string& what) {
  std::cerr << "one_call: " << what << std::endl;
  std::_Exit(kOurs);
}

void fill(void* memory, size_t bytes, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  file.read(static_cast<char*>(memory), static_cast<std::streamsize>(bytes));
  if (static_cast<size_t>(file.gcount()) != bytes) give_up("cannot read " + path);
}

void read_tensor(std::istringstream& line, Argument& argument) {
  int code, bits, lanes, ndim;
  std::string path;
  line >> code >> bits >> lanes >> path >> argument.bytes >> ndim;
  argument.shape.resize(ndim);
  argument.strides.resize(ndim);
  for (int64_t& length : argument.shape) line >> length;
  int64_t stride = 1;
  for (int i = ndim - 1; i >= 0; --i) {
    argument.strides[i] = stride;
    stride *= argument.shape[i];
  }
  void* memory = nullptr;  // exactly as large as the tensor: one element too far is outside
  if (posix_memalign(&memory, kAlignment, argument.bytes ? argument.bytes : 1)) give_up("no memory");
  if (path != "-") fill(memory, argument.bytes, path);
  DLTensor& tensor = argument.tensor;
  tensor.data = memory;
  tensor.device = {kDLCPU, 0};
  tensor.ndim = ndim;
  tensor.dtype = {static_cast<uint8_t>(code), static_cast<uint8_t>(bits), static_cast<uint16_t>(lanes)};
  tensor.shape = argument.shape.data();
  tensor.strides = argument.strides.data();
  tensor.byte_offset = 0;
  argument.value.type_index = kTVMFFIDLTensorPtr;
  argument.value.v_ptr = &tensor;
}

// A system call reads all of it: valgrind reports what was never written, and where that memory comes from.
void require_written(const void* memory, size_t bytes) {
  int sink = open("/dev/null", O_WRONLY);
  const char* from = static_cast<const char*>(memory);
  while (bytes > 0) {
    ssize_t done = write(sink, from, bytes);
    if (done <= 0) break;
    from += done;
    bytes -= static_cast<size_t>(done);
  }
  close(sink);
}

std::string raised() {
  TVMFFIObjectHandle error = nullptr;
  TVMFFIErrorMoveFromRaised(&error);
  if (error == nullptr) return "it failed and did not say why";
  TVMFFIErrorCell* cell = TVMFFIErrorGetCellPtr(error);
  return std::string(cell->kind.data, cell->kind.size) + ": " + std::string(cell->message.data, cell->message.size);
}

TVMFFISafeCallType find(void* library, const std::string& symbol) {
  void* found = dlsym(library, ("__tvm_ffi_" + symbol).c_str());
  if (found == nullptr) give_up("the library exports no " + symbol);
  return reinterpret_cast<TVMFFISafeCallType>(found);
}

void check_returned(const TVMFFIAny& returned) {
  if (returned.type_index != kTVMFFITensor) return;
  const DLTensor* tensor = TVMFFITensorGetDLTensorPtr(returned.v_obj);
  size_t count = 1;
  for (int i = 0; i < tensor->ndim; ++i) count *= static_cast<size_t>(tensor->shape[i]);
  size_t bytes = (count * tensor->dtype.bits * tensor->dtype.lanes + 7) / 8;
  require_written(static_cast<const char*>(tensor->data) + tensor->byte_offset, bytes);
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) give_up("usage: one_call LIBRARY CALL-FILE");
  void* library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) give_up(dlerror());
  std::map<std::string, Argument> arguments;
  TVMFFIAny state{};
  std::ifstream file(words[2]);
  if (!file) give_up(std::string("cannot read ") + words[2]);
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    std::string kind, name;
    line >> kind >> name;
    if (kind == "call") {
      std::string how;
      int passed;
      line >> how >> passed;
      std::vector<TVMFFIAny> given;
      if (how == "pass" || how == "both") given.push_back(state);
      for (int i = 0; i < passed; ++i) {
        std::string each;
        line >> each;
        given.push_back(arguments.at(each).value);
      }
      TVMFFIAny result{};
      if (find(library, name)(nullptr, given.data(), static_cast<int32_t>(given.size()), &result) != 0) {
        std::cerr << name << " raised " << raised() << std::endl;
        std::_Exit(kRaised);
      }
      if ((how == "keep" || how == "both") && result.type_index != kTVMFFINone) state = result;
      if (how == "-" || how == "pass") check_returned(result);
    } else if (kind == "check") {
      const Argument& argument = arguments.at(name);
      require_written(argument.tensor.data, argument.bytes);
    } else if (kind == "tensor") {
      read_tensor(line, arguments[name]);
    } else if (kind == "int") {
      Argument& argument = arguments[name];
      argument.value.type_index = kTVMFFIInt;
      line >> argument.value.v_int64;
    } else if (kind == "bool") {
      Argument& argument = arguments[name];
      argument.value.type_index = kTVMFFIBool;
      line >> argument.value.v_int64;
    } else if (kind == "float") {
      Argument& argument = arguments[name];
      argument.value.type_index = kTVMFFIFloat;
      line >> argument.value.v_float64;
    } else if (kind == "none") {
      arguments[name].value.type_index = kTVMFFINone;
    } else if (!kind.empty()) {
      give_up("no such line: " + text);
    }
  }
  std::cerr.flush();
  std::_Exit(0);
}
