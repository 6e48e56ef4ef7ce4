import { readFileSync, statSync } from "node:fs";
import { SluiceError } from "../../contract/index.ts";
import type { Connections } from "../../postgres/connections.ts";
import { decrypt, encrypt, readEncryptionKey } from "../encryption.ts";

const KEY_BYTES = 32;
const CHECK = { tenant: "", kind: "key", id: "check" };
const TEXT = "sluice";

/**
 * The keys that all servers of a database share: those of the environment, or of the file that it names, else the data
 * folder's own. Commas separate several keys: the first encrypts, the others decrypt older secrets.
 */
export function readSharedKeys(folder: string, env: NodeJS.ProcessEnv = process.env): Uint8Array[] {
  return readGivenKeys(env) ?? [readEncryptionKey(folder)];
}

/** The keys of the environment, or of the file that it names. */
export function readGivenKeys(env: NodeJS.ProcessEnv = process.env): Uint8Array[] | undefined {
  const text = env["SLUICE_SEAL_KEY"] || readKeyFile(env["SLUICE_SEAL_KEY_FILE"]);
  return text?.split(",").map(parseKey);
}

/**
 * The key that encrypts from now on. The database holds a text that only its key decrypts, so that no node encrypts with
 * another one. If the first key is new, all secrets are encrypted again, in one transaction.
 */
export async function agreeOnKey(database: Connections, keys: readonly Uint8Array[]): Promise<Uint8Array> {
  const [key, ...older] = keys;
  if (!key) throw unfit("there is none");
  await database.transact(async (query) => {
    await query("LOCK TABLE sluice.key_checks IN SHARE ROW EXCLUSIVE MODE");
    const [row] = await query("SELECT encrypted FROM sluice.key_checks WHERE id = 1");
    if (row && opens(key, String(row["encrypted"]))) return;
    const before = row && older.find((each) => opens(each, String(row["encrypted"])));
    if (row && !before) throw anotherKey(database.name);
    if (before)
      for (const secret of await query(
        `SELECT s.document, s.encrypted, d.tenant, d.kind, d.id FROM sluice.secrets s
         JOIN sluice.documents d ON d.ordinal = s.document FOR UPDATE OF s`,
      )) {
        const of = {
          tenant: String(secret["tenant"]),
          kind: String(secret["kind"]),
          id: String(secret["id"]),
        };
        const text = decrypt(before, String(secret["encrypted"]), of);
        await query("UPDATE sluice.secrets SET encrypted = $1 WHERE document = $2::bigint", [
          encrypt(key, text, of),
          Number(secret["document"]),
        ]);
      }
    await query(
      `INSERT INTO sluice.key_checks VALUES (1, $1)
       ON CONFLICT (id) DO UPDATE SET encrypted = excluded.encrypted`,
      [encrypt(key, TEXT, CHECK)],
    );
  });
  return key;
}

function opens(key: Uint8Array, encrypted: string): boolean {
  try {
    return decrypt(key, encrypted, CHECK) === TEXT;
  } catch {
    return false;
  }
}

function readKeyFile(path: string | undefined): string | undefined {
  if (!path) return undefined;
  try {
    if ((statSync(path).mode & 0o077) !== 0)
      throw new Error("it is open to other users; chmod 600 closes it");
    return readFileSync(path, "utf8").trim();
  } catch (error) {
    throw unfit(`the file ${path} of SLUICE_SEAL_KEY_FILE cannot be used (${(error as Error).message})`);
  }
}

function parseKey(text: string): Uint8Array {
  const word = text.trim();
  const key = Buffer.from(word, /^[0-9a-f]{64}$/i.test(word) ? "hex" : "base64");
  if (key.length !== KEY_BYTES) throw unfit("a key has 32 bytes, as 64 hexadecimal digits or in base64");
  return key;
}

function unfit(why: string): SluiceError {
  const detail = `The key that encrypts secrets is not valid: ${why}. \`openssl rand -hex 32\` makes one for SLUICE_SEAL_KEY.`;
  return new SluiceError("invalid_request", detail);
}

function anotherKey(name: string): SluiceError {
  const detail = `The secrets in the database ${name} are encrypted with another key. Give this node the key of the others, in SLUICE_SEAL_KEY or SLUICE_SEAL_KEY_FILE; a node that made its own key has it in catalog.key of its data folder. Nothing was changed.`;
  return new SluiceError("data_version", detail, { database: name });
}
