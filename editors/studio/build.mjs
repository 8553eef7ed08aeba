// Bundles the page's script, and writes down the licences of what is in it: npm ci && npm run build
import { build } from "esbuild";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const page = join(here, "../../archir/tools/studio/page");

const made = await build({
  entryPoints: [join(here, "src/main.js")],
  outfile: join(page, "studio.js"),
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  metafile: true,
  loader: { ".arch": "text" },
});

const packages = new Set();
for (const input of Object.keys(made.metafile.inputs)) {
  const found = input.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\//);
  if (found) packages.add(found[1]);
}
const texts = [...packages].sort().map((name) => {
  const folder = join(here, "node_modules", name);
  const about = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((one) => /^licen[cs]e/i.test(one));
  if (!file) throw new Error(`${name} has no licence`);
  return `${name} ${about.version} (${about.license})\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
});
const head = "studio.js is bundled from editors/studio (Apache-2.0, as archir) and these packages:\n\n";
writeFileSync(join(page, "LICENSES.txt"), head + texts.join(`\n${"-".repeat(72)}\n\n`));
console.log(`${packages.size} packages, ${readFileSync(join(page, "studio.js")).length} bytes`);
