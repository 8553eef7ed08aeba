// Links that contain a program: its text is compressed into the fragment of the address, which browsers do not send.

const MAX_TEXT = 400_000; // characters, as in session.py

/** Return the fragment for a program. */
export async function toFragment(name, text) {
  const compressed = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(compressed).arrayBuffer());
  const base64 = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  return `#${new URLSearchParams({ name, program: base64.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "") })}`;
}

/** Return the program in a fragment, or null if there is none. Throws an Error if the program is damaged or too long. */
export async function fromFragment(fragment) {
  const fields = new URLSearchParams(fragment.replace(/^#/, ""));
  if (!fields.has("program")) return null;
  try {
    const base64 = fields.get("program").replaceAll("-", "+").replaceAll("_", "/");
    const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
    const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader();
    const decoder = new TextDecoder("utf-8", { fatal: true });
    let text = "";
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      text += decoder.decode(part.value, { stream: true });
      if (text.length > MAX_TEXT) throw new RangeError();
    }
    return { name: fields.get("name") || "space.arch", text: text + decoder.decode() };
  } catch (error) {
    const problem = error instanceof RangeError ? "is too long" : "is damaged";
    throw new Error(`The program in this link ${problem}.`);
  }
}
