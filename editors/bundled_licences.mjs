// The licences of the packages that are in a bundle.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";

/** The names of the packages in the bundle that esbuild made in a folder, and the texts of their licences. */
export function bundledLicences(metafile, folder) {
  const packages = new Set();
  for (const input of Object.keys(metafile.inputs)) {
    const found = input.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\//);
    if (found) packages.add(found[1]);
  }
  const names = [...packages].sort();
  const texts = names.map((name) => {
    const place = join(folder, "node_modules", name);
    const about = JSON.parse(readFileSync(join(place, "package.json"), "utf8"));
    const file = readdirSync(place).find((one) => /^licen[cs]e/i.test(one));
    if (!file) throw new Error(`${name} has no licence`);
    return `${name} ${about.version} (${about.license})\n\n${readFileSync(join(place, file), "utf8").trim()}\n`;
  });
  return [names, texts.join(`\n${"-".repeat(72)}\n\n`)];
}
