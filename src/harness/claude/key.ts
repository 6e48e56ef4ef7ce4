import { join } from "node:path";
import type { Launch } from "../../contract/index.ts";

/**
 * The key in a file, and a helper that the CLI asks for it. So no program that the agent starts finds it in its
 * environment by accident; one that looks for it can read the file, as can the agent itself.
 */
export function toKeyFiles(
  env: Readonly<Record<string, string>>,
  { folder, home }: { folder: string; home: string },
): { env: Record<string, string>; settings: object; files: NonNullable<Launch["files"]> } {
  const { ANTHROPIC_API_KEY: key, ...rest } = env;
  if (key === undefined || key === "") return { env: rest, settings: {}, files: [] };
  const path = `${folder}/key`;
  const settings = { apiKeyHelper: `cat ${quote(join(home, path))}` };
  return { env: rest, settings, files: [{ path, content: key, mode: 0o600 }] };
}

function quote(path: string): string {
  return `'${path.replaceAll("'", `'\\''`)}'`;
}
