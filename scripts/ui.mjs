import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { build } from "vite";
import { ROOT } from "./setup.mjs";

/** Builds the page: dist/ui for the server, with packed copies, and the single file of `sluice export --html`. */
const BUNDLED = [
  "preact",
  "@preact/signals",
  "@preact/signals-core",
  "marked",
  "highlight.js",
  "diff",
  "eventsource-parser",
  "zod",
];
const folder = join(ROOT, "dist", "ui");
const shared = {
  root: join(ROOT, "src", "ui"),
  configFile: false,
  logLevel: "warn",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
};

await build({
  ...shared,
  base: "/ui/",
  worker: { format: "es" },
  build: {
    outDir: folder,
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
});
await build({
  ...shared,
  build: {
    outDir: join(ROOT, "dist", "ui-export"),
    emptyOutDir: true,
    target: "es2022",
    cssCodeSplit: false,
    reportCompressedSize: false,
    lib: {
      entry: "export-main.tsx",
      formats: ["iife"],
      name: "sluicePage",
      fileName: () => "page.js",
      cssFileName: "page",
    },
    rolldownOptions: { output: { inlineDynamicImports: true } },
  },
  define: { "process.env.NODE_ENV": '"production"' },
});

for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
  if (!entry.isFile() || !/\.(?:html|js|css|svg)$/.test(entry.name)) continue;
  const path = join(entry.parentPath, entry.name);
  const bytes = readFileSync(path);
  writeFileSync(`${path}.gz`, gzipSync(bytes, { level: 9 }));
  writeFileSync(
    `${path}.br`,
    brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }),
  );
}
const texts = BUNDLED.map((name) => {
  const home = join(ROOT, "node_modules", name);
  const file = readdirSync(home).find((entry) => /^licen[cs]e/i.test(entry));
  if (file === undefined) throw new Error(`${name} has no licence file, so it cannot be bundled`);
  return `${name}\n\n${readFileSync(join(home, file), "utf8").trim()}\n`;
});
writeFileSync(join(folder, "licenses.txt"), texts.join("\n----\n\n"));
