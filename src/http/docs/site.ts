import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, extname, join, relative, sep } from "node:path";
import type { Context, Hono } from "hono";
import { SluiceError } from "../../contract/index.ts";
import type { AppEnv } from "../context.ts";
import { mountRoute, type RouteServices } from "../operation.ts";

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

/** The pages need no script, no font and no other host. */
const HEADERS = {
  "content-security-policy":
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cache-control": "no-cache",
};

interface SiteFile {
  readonly body: Uint8Array<ArrayBuffer>;
  readonly type: string;
  readonly etag: string;
}

/** Serves the built documentation. Its files are read once, and a path is only a key among them. */
export function mountDocs(app: Hono<AppEnv>, services: RouteServices): void {
  const folder = docsFolder();
  let site: Promise<ReadonlyMap<string, SiteFile>> | undefined;
  const read = (): Promise<ReadonlyMap<string, SiteFile>> => {
    site ??= readSite(folder).catch((error: unknown) => {
      // The next request tries again.
      site = undefined;
      throw error;
    });
    return site;
  };
  const scope = "open";
  mountRoute(app, services, { method: "GET", path: "/docs", scope }, (c) => c.redirect("/docs/", 308));
  mountRoute(app, services, { method: "GET", path: "/docs/*", scope }, async (c) =>
    toResponse(c, (await read()).get(toKey(c.req.path))),
  );
}

function toResponse(c: Context<AppEnv>, file: SiteFile | undefined): Response {
  if (!file) throw new SluiceError("not_found", "There is no such page. /docs/ lists the pages.");
  const headers = { ...HEADERS, "content-type": file.type, etag: file.etag };
  if (isKnown(c.req.header("if-none-match"), file.etag)) return new Response(null, { status: 304, headers });
  const length = { "content-length": String(file.body.byteLength) };
  return new Response(file.body, { headers: { ...headers, ...length } });
}

function isKnown(given: string | undefined, etag: string): boolean {
  const known = given?.split(",").map((tag) => tag.trim().replace(/^W\//, "")) ?? [];
  return known.includes(etag) || known.includes("*");
}

function toKey(path: string): string {
  const key = path.slice("/docs/".length);
  return key === "" || key.endsWith("/") ? `${key}index.html` : key;
}

async function readSite(folder: string): Promise<ReadonlyMap<string, SiteFile>> {
  if (!existsSync(folder))
    throw new SluiceError("not_found", "The documentation is not built. `npm run build` builds it.");
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && TYPES[extname(entry.name)] !== undefined);
  const read = files.map(async ({ parentPath, name }): Promise<[string, SiteFile]> => {
    const path = join(parentPath, name);
    const body = new Uint8Array(await readFile(path));
    const etag = `"${createHash("sha256").update(body).digest("base64url").slice(0, 27)}"`;
    const key = relative(folder, path).split(sep).join("/");
    return [key, { body, etag, type: TYPES[extname(name)] ?? "application/octet-stream" }];
  });
  return new Map(await Promise.all(read));
}

function docsFolder(): string {
  const manifest = createRequire(import.meta.url).resolve("sluice/package.json");
  return join(dirname(manifest), "dist", "docs");
}
