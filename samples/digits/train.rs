// Trains samples/digits/model.json from Rust, with the standard library alone: `rustc -O train.rs`, then
// `train step.so digits.csv [steps]`. The structs are those of stepc/step.h as far as they are used; bindgen makes all of them.
// What belongs to the object is in `Step`, which ends it when it is dropped.
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::{env, fs, process, ptr};

#[repr(C)]
struct Array { size: usize, name: *const c_char, data: *mut c_void, dtype: u32, rank: i32, shape: *const i64, strides: *const i64,
    device_type: i32, device_id: i32 }
#[repr(C)]
struct Options { size: usize, host: *const c_void, transport: *const c_char, communicator: *const c_void, devices: *const c_char,
    threads: u32, flags: u32, seed: *const u64, timeout_ms: i64, max_memory: u64 }
#[repr(C)]
struct Batch { size: usize, inputs: *const Array, input_count: usize, hypers: *const c_void, hyper_count: usize, microbatches: u32,
    flags: u32, accept: *const c_void, user: *const c_void }
#[repr(C)]
struct StepResult { size: usize, step: u64, loss: f64, flags: u32, metric_capacity: u32, metric_count: u32, metrics: *mut f64,
    ns_total: u64, ns_communication: u64 }

type Instance = *mut c_void;
#[repr(C)] // the table begins so; entries that are not called here are pointers
struct Api { size: usize, major: u32, minor: u32, describe: *const c_void,
    status_name: extern "C" fn(i32) -> *const c_char, last_error: extern "C" fn(Instance) -> *const c_char,
    create: extern "C" fn(*const Options, *mut Instance) -> i32, destroy: extern "C" fn(Instance), init: extern "C" fn(Instance) -> i32,
    between: [*const c_void; 12],
    step: extern "C" fn(Instance, *const Batch, *mut StepResult) -> i32 }

const F32: u32 = 14;
const I32: u32 = 7;

extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
}

fn text(s: *const c_char) -> String {
    if s.is_null() { String::new() } else { unsafe { CStr::from_ptr(s) }.to_string_lossy().into_owned() }
}

/// The CRC-32 of zlib.
fn crc32(parts: &[&[u8]]) -> u32 {
    let mut crc = !0u32;
    for byte in parts.iter().flat_map(|part| part.iter()) {
        crc ^= *byte as u32;
        for _ in 0..8 { crc = crc >> 1 ^ if crc & 1 == 1 { 0xedb88320 } else { 0 }; }
    }
    !crc
}

/// Whether an object is what was compiled: its note "stepc" begins with the sum of all other bytes, as stepc/step_open.h says.
fn intact(object: &[u8]) -> bool {
    let head = b"\x06\0\0\0\x0c\0\0\0\x02\0\0\0stepc\0\0\0";
    let Some(at) = (0..object.len()).step_by(4).find(|at| object[*at..].starts_with(head)) else { return false };
    let note = at + head.len();
    object.len() >= note + 12 && object[note..note + 4] == crc32(&[&object[..note], &object[note + 4..]]).to_le_bytes()
}

struct Step { api: &'static Api, instance: Instance }

impl Step {
    fn open(path: &str) -> Result<Step, String> {
        let mut file = fs::File::open(path).map_err(|e| format!("{}: {}", path, e))?;
        let mut object = Vec::new();
        file.read_to_end(&mut object).map_err(|e| format!("{}: {}", path, e))?;
        if !intact(&object) { return Err(format!("{}: no object of stepc, or damaged: its bytes do not have its checksum", path)); }
        let path = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap(); // what was compared, whatever stands there now
        let name = CString::new("step_query").unwrap();
        let api: *const Api = unsafe {
            let library = dlopen(path.as_ptr(), 2 /* RTLD_NOW */);
            if library.is_null() { return Err(text(dlerror())); }
            let query = dlsym(library, name.as_ptr());
            if query.is_null() { return Err("no object of stepc".to_string()); }
            let query: extern "C" fn(u32, u32) -> *const Api = std::mem::transmute(query);
            query(1, 2)
        };
        let api = unsafe { api.as_ref() }.ok_or("another version of the interface")?;
        let options = Options { size: std::mem::size_of::<Options>(), host: ptr::null(), transport: ptr::null(), communicator: ptr::null(),
            devices: ptr::null(), threads: 0, flags: 0, seed: ptr::null(), timeout_ms: 0, max_memory: 0 };
        let mut step = Step { api, instance: ptr::null_mut() };
        let status = (api.create)(&options, &mut step.instance);
        step.check(status)?;
        step.check((api.init)(step.instance))?;
        Ok(step)
    }

    fn check(&self, status: i32) -> Result<(), String> {
        if status == 0 { return Ok(()); }
        Err(format!("{}: {}", text((self.api.status_name)(status)), text((self.api.last_error)(self.instance))))
    }

    /// One training step on arrays that are borrowed until it returns; its loss.
    fn step(&mut self, inputs: &[Array]) -> Result<f64, String> {
        let batch = Batch { size: std::mem::size_of::<Batch>(), inputs: inputs.as_ptr(), input_count: inputs.len(), hypers: ptr::null(),
            hyper_count: 0, microbatches: 0, flags: 0, accept: ptr::null(), user: ptr::null() };
        let mut r = StepResult { size: std::mem::size_of::<StepResult>(), step: 0, loss: 0.0, flags: 0, metric_capacity: 0, metric_count: 0,
            metrics: ptr::null_mut(), ns_total: 0, ns_communication: 0 };
        self.check((self.api.step)(self.instance, &batch, &mut r))?;
        Ok(r.loss)
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        if !self.instance.is_null() { (self.api.destroy)(self.instance) }
    }
}

fn array<T>(name: &CStr, data: &[T], dtype: u32, shape: &[i64]) -> Array { // an input is never written
    assert_eq!(shape.iter().product::<i64>() as usize, data.len());
    Array { size: std::mem::size_of::<Array>(), name: name.as_ptr(), data: data.as_ptr() as *mut c_void, dtype, rank: shape.len() as i32,
        shape: shape.as_ptr(), strides: ptr::null(), device_type: 0, device_id: 0 }
}

const BATCH: usize = 64;
const PIXELS: usize = 64;

fn train(arguments: &[String]) -> Result<(), String> {
    if arguments.len() < 3 { return Err("usage: train step.so digits.csv [steps]".to_string()); }
    let steps: usize = arguments.get(3).map_or(Ok(2000), |s| s.parse()).map_err(|_| "steps: not a number")?;
    let mut rows: Vec<Vec<i32>> = Vec::new();
    for line in fs::read_to_string(&arguments[2]).map_err(|e| format!("{}: {}", arguments[2], e))?.lines() {
        let row: Result<Vec<i32>, _> = line.trim().split(',').map(|n| n.parse()).collect();
        match row {
            Ok(row) if row.len() == PIXELS + 1 => rows.push(row),
            _ => return Err(format!("{}: line {} is not 65 numbers", arguments[2], rows.len() + 1)),
        }
    }
    let mut step = Step::open(&arguments[1])?;
    let (image_name, digit_name) = (CString::new("image").unwrap(), CString::new("digit").unwrap());
    let (image_shape, digit_shape) = ([BATCH as i64, PIXELS as i64], [BATCH as i64]);
    let (mut image, mut digit) = (vec![0f32; BATCH * PIXELS], vec![0i32; BATCH]);
    let mut seed: u64 = 42;
    for k in 1..=steps {
        for b in 0..BATCH {
            seed ^= seed >> 12; seed ^= seed << 25; seed ^= seed >> 27; // xorshift64*: Vigna 2016
            let row = &rows[(seed.wrapping_mul(0x2545f4914f6cdd1d) >> 33) as usize % rows.len()];
            for (to, from) in image[b * PIXELS..].iter_mut().zip(&row[..PIXELS]) { *to = *from as f32 / 16.0; }
            digit[b] = row[PIXELS];
        }
        let loss = step.step(&[array(&image_name, &image, F32, &image_shape), array(&digit_name, &digit, I32, &digit_shape)])?;
        if k == 1 || k == steps || k % (steps / 10).max(1) == 0 { println!("step {:5}/{}  loss {:.4}", k, steps, loss); }
    }
    Ok(())
}

fn main() {
    if let Err(e) = train(&env::args().collect::<Vec<_>>()) {
        eprintln!("{}", e);
        process::exit(1);
    }
}
