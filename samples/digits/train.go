// Trains samples/digits/model.json from Go: `go run train.go step.so digits.csv [steps]`, with CGO_CFLAGS=-I<prefix>/include.
// cgo cannot call function pointers in structs: step_calls.h has them as functions. What C keeps a pointer to lies in C's
// memory (cgo's rule), so batches are written into slices over it.
package main

/*
#cgo LDFLAGS: -ldl
#define _GNU_SOURCE
#include <stepc/step_calls.h>
*/
import "C"

import (
	"bufio"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"unsafe"
)

const batch, pixels = 64, 64

func fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", arguments...)
	os.Exit(1)
}

// An input of the step in C's memory, and the array that tells of it.
func input(name string, dtype C.uint32_t, a *C.struct_step_array, shape ...int64) unsafe.Pointer {
	elements := int64(1)
	dims := unsafe.Slice((*int64)(C.malloc(C.size_t(8*len(shape)))), len(shape))
	for i, n := range shape {
		dims[i] = n
		elements *= n
	}
	*a = C.struct_step_array{size: C.sizeof_struct_step_array, name: C.CString(name), data: C.calloc(C.size_t(elements), 4),
		dtype: dtype, rank: C.int32_t(len(shape)), shape: (*C.int64_t)(&dims[0])}
	return a.data
}

func main() {
	if len(os.Args) < 3 {
		fail("usage: train step.so digits.csv [steps]")
	}
	steps := 2000
	if len(os.Args) > 3 {
		steps, _ = strconv.Atoi(os.Args[3])
	}
	var images [][]float32
	var digits []int32
	file, err := os.Open(os.Args[2])
	if err != nil {
		fail("%v", err)
	}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		words := strings.Split(strings.TrimSpace(lines.Text()), ",")
		if len(words) != pixels+1 {
			fail("%s: line %d is not 65 numbers", os.Args[2], len(digits)+1)
		}
		row := make([]float32, pixels)
		for i := range row {
			value, _ := strconv.Atoi(words[i])
			row[i] = float32(value) / 16
		}
		digit, _ := strconv.Atoi(words[pixels])
		images, digits = append(images, row), append(digits, int32(digit))
	}
	var api *C.struct_step_api
	var text [512]C.char
	path := C.CString(os.Args[1])
	if C.step_call_open(path, &api, &text[0], C.size_t(len(text))) != C.STEP_OK {
		fail("%s", C.GoString(&text[0]))
	}
	var trainer *C.struct_step_instance
	options := C.struct_step_options{size: C.sizeof_struct_step_options}
	check := func(status C.step_status) {
		if status != C.STEP_OK {
			fail("%s: %s", C.GoString(C.step_call_status_name(api, status)), C.GoString(C.step_call_last_error(api, trainer)))
		}
	}
	check(C.step_call_create(api, &options, &trainer))
	defer C.step_call_destroy(api, trainer)
	check(C.step_call_init(api, trainer))
	arrays := unsafe.Slice((*C.struct_step_array)(C.calloc(2, C.sizeof_struct_step_array)), 2)
	image := unsafe.Slice((*float32)(input("image", C.STEP_F32, &arrays[0], batch, pixels)), batch*pixels)
	digit := unsafe.Slice((*int32)(input("digit", C.STEP_I32, &arrays[1], batch)), batch)
	given := C.struct_step_batch{size: C.sizeof_struct_step_batch, inputs: &arrays[0], input_count: 2}
	result := C.struct_step_result{size: C.sizeof_struct_step_result}
	random := rand.New(rand.NewSource(42))
	for step := 1; step <= steps; step++ {
		for row := 0; row < batch; row++ {
			k := random.Intn(len(digits))
			copy(image[row*pixels:], images[k])
			digit[row] = digits[k]
		}
		check(C.step_call_step(api, trainer, &given, &result))
		if step == 1 || step == steps || step%max(steps/10, 1) == 0 {
			fmt.Printf("step %5d/%d  loss %.4f\n", step, steps, float64(result.loss))
		}
	}
}

func max(a, b int) int {
	if a > b {
		return a
	}
	return b
}
