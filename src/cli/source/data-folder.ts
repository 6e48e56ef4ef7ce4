import { randomBytes } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { makeOnce } from "../../catalog/encryption.ts";
import { defaultDataFolder } from "../../sandbox/data-folder.ts";
import { CliFailure } from "../terminal/failure.ts";

/** The data folder: `--data`, else `$XDG_DATA_HOME/sluice`, else `~/.local/share/sluice`. */
export function dataDirOf(option: string | undefined, env: NodeJS.ProcessEnv = process.env): string {
  return option ? resolve(option) : defaultDataFolder(env);
}

/** Whether this user has no access to the folder. */
export function isHidden(folder: string): boolean {
  try {
    statSync(join(folder, "log.db"));
    return false;
  } catch (error) {
    return ["EACCES", "EPERM"].includes((error as NodeJS.ErrnoException).code ?? "");
  }
}

/** Creates the folder and its parents, private to this user. */
export function ensureDataDir(folder: string): string {
  try {
    makeFolder(folder);
    if ((statSync(folder).mode & 0o077) !== 0) closeToOthers(folder);
    return folder;
  } catch (error) {
    const { message } = error as Error;
    throw new CliFailure(
      `The data folder ${folder} cannot be used (${message}). Choose another one with --data.`,
    );
  }
}

/** Makes the folder private. Refuses a folder with other contents, such as /tmp. */
function closeToOthers(folder: string): void {
  const names = readdirSync(folder);
  const isOurs = names.length === 0 || ["log.db", "token"].some((name) => names.includes(name));
  if (!isOurs)
    throw new Error(
      "other users can read it, and it holds other things than sluice's; chmod 700 makes it private",
    );
  chmodSync(folder, 0o700);
}

// Without `recursive`: with it, Node hangs if the system hides a parent that exists, as in /proc.
function makeFolder(folder: string): void {
  if (existsSync(folder)) {
    if (!statSync(folder).isDirectory()) throw new Error(`${folder} is not a folder`);
    return;
  }
  if (dirname(folder) !== folder) makeFolder(dirname(folder));
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    // Another process may have created it meanwhile.
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}

export function tokenFile(dataDir: string): string {
  return join(dataDir, "token");
}

export function readToken(dataDir: string): string | undefined {
  try {
    return readFileSync(tokenFile(dataDir), "utf8").trim() || undefined;
  } catch {
    return undefined;
  }
}

/** The token of this data folder, created on the first start. Two servers that start at once agree on one. */
export function ensureToken(dataDir: string): string {
  const file = tokenFile(dataDir);
  if (!existsSync(file)) makeToken(file);
  const token = readToken(dataDir);
  if (token === undefined || !isSendable(token)) {
    throw new CliFailure(
      `The file ${file} holds no token that a client could send: one word of visible ASCII characters. ` +
        "Remove it to have a new one made.",
    );
  }
  chmodSync(file, 0o600);
  return token;
}

function makeToken(file: string): void {
  try {
    makeOnce(file, `${randomBytes(32).toString("base64url")}\n`);
  } catch (error) {
    const why = (error as Error).message;
    throw new CliFailure(
      `The token cannot be kept in ${file} (${why}). Make room or give access there, or choose another folder with --data.`,
    );
  }
}

/** Whether a token is one word that fits into a header. */
export function isSendable(token: string): boolean {
  return /^[\x21-\x7e]+$/.test(token);
}
