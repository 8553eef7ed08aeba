// Runs ONNX models in onnxruntime-web, for runtimes.py: node runtimes.mjs FOLDER_WITH_PACKAGE
// Each line of standard input is a task, {model, inputs: [{name: {type, dims, data}}]}, with data in base64; the answer
// is a line with the outputs in the same form, or with an error.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const ort = createRequire(`${process.argv[2]}/`)("onnxruntime-web");
ort.env.logLevel = "fatal";
ort.env.wasm.numThreads = 1;
const arrays = { float32: Float32Array, int64: BigInt64Array, int32: Int32Array, uint8: Uint8Array, bool: Uint8Array };

async function run({ model, inputs }) {
  const session = await ort.InferenceSession.create(readFileSync(model), { logSeverityLevel: 4 });
  const outputs = [];
  for (const batch of inputs) {
    const feeds = {};
    for (const [name, { type, dims, data }] of Object.entries(batch)) {
      const bytes = Uint8Array.from(Buffer.from(data, "base64"));
      feeds[name] = new ort.Tensor(type, new arrays[type](bytes.buffer), dims);
    }
    const found = {};
    for (const [name, { type, dims, data }] of Object.entries(await session.run(feeds))) {
      const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
      found[name] = { type, dims, data: bytes.toString("base64") };
    }
    outputs.push(found);
  }
  await session.release();
  return { outputs };
}

for await (const line of createInterface({ input: process.stdin })) {
  const answer = await run(JSON.parse(line)).catch((error) => ({ error: String(error.message ?? error) }));
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
