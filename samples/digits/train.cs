// Trains samples/digits/model.json from C#, .NET or Mono, with the standard library alone. Platform invocation wants symbols in a
// library, which step_calls.h makes of the table, with the checksum of the object compared before it is loaded:
//
//     echo '#include <stepc/step_calls.h>' | cc -x c -shared -fPIC -DSTEP_CALLS_SYMBOLS -D_GNU_SOURCE -I<prefix>/include - -o libstep_calls.so -ldl
//     mcs train.cs && LD_LIBRARY_PATH=. mono train.exe step.so digits.csv [steps]
//
// The structs are those of stepc/step.h as far as they are used. Arrays are pinned: the step reads them where they lie.
using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Runtime.InteropServices;
using System.Text;

static class Calls
{
    [StructLayout(LayoutKind.Sequential)]
    public struct Array_ { public UIntPtr size; public IntPtr name, data; public uint dtype; public int rank; public IntPtr shape, strides; public int deviceType, deviceId; }
    [StructLayout(LayoutKind.Sequential)]
    public struct Options { public UIntPtr size; public IntPtr host, transport, communicator, devices; public uint threads, flags; public IntPtr seed; public long timeoutMs; public ulong maxMemory; }
    [StructLayout(LayoutKind.Sequential)]
    public struct Batch { public UIntPtr size; public IntPtr inputs; public UIntPtr inputCount; public IntPtr hypers; public UIntPtr hyperCount; public uint microbatches, flags; public IntPtr accept, user; }
    [StructLayout(LayoutKind.Sequential)]
    public struct Result { public UIntPtr size; public ulong step; public double loss; public uint flags, metricCapacity, metricCount; public IntPtr metrics; public ulong nsTotal, nsCommunication; }

    public const uint F32 = 14, I32 = 7;
    [DllImport("step_calls")] public static extern int step_call_open(byte[] path, out IntPtr api, byte[] error, UIntPtr capacity);
    [DllImport("step_calls")] public static extern IntPtr step_call_status_name(IntPtr api, int status);
    [DllImport("step_calls")] public static extern IntPtr step_call_last_error(IntPtr api, IntPtr instance);
    [DllImport("step_calls")] public static extern int step_call_create(IntPtr api, ref Options options, out IntPtr instance);
    [DllImport("step_calls")] public static extern void step_call_destroy(IntPtr api, IntPtr instance);
    [DllImport("step_calls")] public static extern int step_call_init(IntPtr api, IntPtr instance);
    [DllImport("step_calls")] public static extern int step_call_step(IntPtr api, IntPtr instance, ref Batch batch, ref Result result);

    public static UIntPtr Size<T>() { return (UIntPtr)(uint)Marshal.SizeOf(typeof(T)); }
}

sealed class Step : IDisposable
{
    readonly IntPtr api;
    readonly List<GCHandle> pinned = new List<GCHandle>();
    readonly List<Calls.Array_> inputs = new List<Calls.Array_>();
    readonly List<IntPtr> names = new List<IntPtr>();
    IntPtr instance;

    public Step(string path)
    {
        byte[] text = new byte[512];
        if (Calls.step_call_open(Encoding.UTF8.GetBytes(path + "\0"), out api, text, (UIntPtr)(uint)text.Length) != 0)
            throw new InvalidOperationException(Encoding.UTF8.GetString(text, 0, System.Array.IndexOf(text, (byte)0)));
        var options = new Calls.Options { size = Calls.Size<Calls.Options>() };
        Check(Calls.step_call_create(api, ref options, out instance));
        Check(Calls.step_call_init(api, instance));
    }

    void Check(int status)
    {
        if (status == 0) return;
        throw new InvalidOperationException(Marshal.PtrToStringAnsi(Calls.step_call_status_name(api, status)) + ": " +
                                            Marshal.PtrToStringAnsi(Calls.step_call_last_error(api, instance)));
    }

    IntPtr Pin(object array)
    {
        pinned.Add(GCHandle.Alloc(array, GCHandleType.Pinned));
        return pinned[pinned.Count - 1].AddrOfPinnedObject();
    }

    // An array that every step reads under this name; the caller writes new values into it.
    public void Bind(string name, Array data, uint dtype, params long[] shape)
    {
        names.Add(Marshal.StringToHGlobalAnsi(name));
        inputs.Add(new Calls.Array_ { size = Calls.Size<Calls.Array_>(), name = names[names.Count - 1], data = Pin(data), dtype = dtype,
                                      rank = shape.Length, shape = Pin(shape) });
    }

    public double Run()
    {
        GCHandle arrays = GCHandle.Alloc(inputs.ToArray(), GCHandleType.Pinned);
        var batch = new Calls.Batch { size = Calls.Size<Calls.Batch>(), inputs = arrays.AddrOfPinnedObject(), inputCount = (UIntPtr)(uint)inputs.Count };
        var result = new Calls.Result { size = Calls.Size<Calls.Result>() };
        int status = Calls.step_call_step(api, instance, ref batch, ref result);
        arrays.Free();
        Check(status);
        return result.loss;
    }

    public void Dispose()
    {
        Calls.step_call_destroy(api, instance);
        foreach (GCHandle h in pinned) h.Free();
        foreach (IntPtr n in names) Marshal.FreeHGlobal(n);
    }
}

static class Train
{
    const int Rows = 64, Pixels = 64;

    static int Main(string[] args)
    {
        if (args.Length < 2)
        {
            Console.Error.WriteLine("usage: train step.so digits.csv [steps]");
            return 2;
        }
        try
        {
            int steps = args.Length > 2 ? int.Parse(args[2], CultureInfo.InvariantCulture) : 2000;
            var images = new List<float[]>();
            var digits = new List<int>();
            foreach (string line in File.ReadLines(args[1]))
            {
                string[] words = line.Split(',');
                if (words.Length != Pixels + 1) throw new InvalidDataException(args[1] + ": line " + (digits.Count + 1) + " is not 65 numbers");
                var row = new float[Pixels];
                for (int i = 0; i < Pixels; i++) row[i] = int.Parse(words[i], CultureInfo.InvariantCulture) / 16f;
                images.Add(row);
                digits.Add(int.Parse(words[Pixels], CultureInfo.InvariantCulture));
            }
            var random = new Random(42);
            var image = new float[Rows * Pixels];
            var digit = new int[Rows];
            using (var step = new Step(args[0]))
            {
                step.Bind("image", image, Calls.F32, Rows, Pixels);
                step.Bind("digit", digit, Calls.I32, Rows);
                for (int at = 1; at <= steps; at++)
                {
                    for (int row = 0; row < Rows; row++)
                    {
                        int k = random.Next(digits.Count);
                        Array.Copy(images[k], 0, image, row * Pixels, Pixels);
                        digit[row] = digits[k];
                    }
                    double loss = step.Run();
                    if (at == 1 || at == steps || at % Math.Max(steps / 10, 1) == 0)
                        Console.WriteLine(string.Format(CultureInfo.InvariantCulture, "step {0,5}/{1}  loss {2:F4}", at, steps, loss));
                }
            }
            return 0;
        }
        catch (Exception e)
        {
            Console.Error.WriteLine(e.Message);
            return 1;
        }
    }
}
