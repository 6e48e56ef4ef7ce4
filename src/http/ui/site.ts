import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, extname, join, relative, sep } from "node:path";
import type { Context } from "hono";
import { SluiceError } from "../../contract/index.ts";
import type { AppEnv } from "../context.ts";

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".txt": "text/plain; charset=utf-8",
};

/** Own files only, nothing inline. The one policy of Trusted Types lets the page start its own worker. */
export const PAGE_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; " +
  "worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
  "require-trusted-types-for 'script'; trusted-types default";

const HEADERS = {
  "content-security-policy": PAGE_POLICY,
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "permissions-policy": "camera=(), microphone=(), geolocation=()",
  vary: "accept-encoding",
};

type Encoding = "br" | "gzip";

interface PageFile {
  readonly type: string;
  readonly etag: string;
  /** Whether the name has a digest of the content. */
  readonly isHashed: boolean;
  readonly plain: Uint8Array<ArrayBuffer>;
  readonly packed: Partial<Record<Encoding, Uint8Array<ArrayBuffer>>>;
}

export type PageFiles = ReadonlyMap<string, PageFile>;

/** Reads the built page into memory. A path is only a key among the files. */
export async function readPage(folder = pageFolder()): Promise<PageFiles> {
  if (!existsSync(join(folder, "index.html")))
    throw new SluiceError("not_found", "The page is not built. `npm run build` builds it.");
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const served = entries.filter((entry) => entry.isFile() && TYPES[extname(entry.name)] !== undefined);
  const files = served.map(async ({ parentPath, name }): Promise<[string, PageFile]> => {
    const path = join(parentPath, name);
    const plain = new Uint8Array(await readFile(path));
    const etag = `"${createHash("sha256").update(plain).digest("base64url").slice(0, 27)}"`;
    const key = relative(folder, path).split(sep).join("/");
    const [br, gzip] = await Promise.all([readPacked(`${path}.br`), readPacked(`${path}.gz`)]);
    const packed = { ...(br && { br }), ...(gzip && { gzip }) };
    return [
      key,
      {
        type: TYPES[extname(name)] ?? "application/octet-stream",
        etag,
        isHashed: key.startsWith("assets/"),
        plain,
        packed,
      },
    ];
  });
  return new Map(await Promise.all(files));
}

export function toPageResponse(c: Context<AppEnv>, file: PageFile | undefined): Response {
  if (!file) throw new SluiceError("not_found", "The page has no such file. It is at /ui/.");
  const headers: Record<string, string> = {
    ...HEADERS,
    "content-type": file.type,
    etag: file.etag,
    "cache-control": file.isHashed ? "public, max-age=31536000, immutable" : "no-cache",
  };
  if (c.req.header("if-none-match")?.includes(file.etag)) return new Response(null, { status: 304, headers });
  const accepted = c.req.header("accept-encoding") ?? "";
  const encoding = (["br", "gzip"] as const).find(
    (name) =>
      file.packed[name] !== undefined && new RegExp(`\\b${name}\\b(?!;q=0(?:\\.0*)?(?:,|$))`).test(accepted),
  );
  if (encoding) headers["content-encoding"] = encoding;
  const body = (encoding && file.packed[encoding]) ?? file.plain;
  headers["content-length"] = String(body.byteLength);
  return new Response(body, { headers });
}

async function readPacked(path: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
  return existsSync(path) ? new Uint8Array(await readFile(path)) : undefined;
}

function pageFolder(): string {
  const manifest = createRequire(import.meta.url).resolve("sluice/package.json");
  return join(dirname(manifest), "dist", "ui");
}
