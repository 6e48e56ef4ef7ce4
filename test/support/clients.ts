import { existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

/** A stack of client packages that the set-up of `npm test -- --all` puts into a folder of its own (`scripts/clients.mjs`). */
export interface Client {
  readonly folder: string;
  /** One of its packages, or an entry of one: `@tanstack/ai/adapters`. */
  load(specifier: string): Promise<unknown>;
}

export type RequiredClient =
  | { readonly client: Client; readonly reason?: undefined }
  | { readonly client?: undefined; readonly reason: string };

/**
 * The stack, or the reason to skip the test that needs it. Under CI=true nothing is skipped: it throws.
 *
 *     const { client, reason } = requireClient("tanstack-0.42");
 *     if (client === undefined) return skip(reason);
 */
export function requireClient(name: string): RequiredClient {
  const cache = join(process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache"), "sluice", "clients");
  const folder = join(process.env["SLUICE_TEST_CLIENTS"] ?? cache, name);
  if (existsSync(join(folder, "node_modules"))) {
    return { client: { folder, load: (specifier) => import(entryOf(folder, specifier)) } };
  }
  const reason = `the client ${name} is not installed; \`npm test -- --all\` installs it for the tests`;
  if (process.env["CI"] === "true") throw new Error(`${reason}, and under CI=true it has to be there`);
  return { reason };
}

function entryOf(folder: string, specifier: string): string {
  const [, name = "", entry = ""] = /^((?:@[^/]+\/)?[^/]+)(\/.*)?$/.exec(specifier) ?? [];
  const target = join(folder, "node_modules", name);
  const { exports = {} } = JSON.parse(readFileSync(join(target, "package.json"), "utf8")) as {
    exports?: Record<string, { import?: string | { default: string } }>;
  };
  const found = exports[`.${entry}`]?.import;
  const file = typeof found === "string" ? found : found?.default;
  if (file === undefined) throw new Error(`${name} has no entry ${specifier}`);
  return pathToFileURL(join(target, file)).href;
}
