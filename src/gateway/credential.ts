import { createSign } from "node:crypto";
import { AwsV4Signer } from "aws4fetch";
import type { ModelRoute } from "../contract/process.ts";
import type { Headers } from "./headers.ts";
import { Refusal } from "./refusal.ts";
import { asObject, asText, type Json } from "./wire.ts";

/** The headers that authorize a request, and the secrets that no answer may quote. */
export interface Authorization {
  readonly headers: Headers;
  readonly secrets: readonly string[];
}

/** A request to the provider, as it is sent. */
export interface Outgoing {
  readonly method: string;
  readonly url: string;
  readonly body: Buffer;
}

/** Sends a form to a token endpoint, and reads its answer. */
export type PostForm = (url: string, form: string) => Promise<{ status: number; text: string }>;

/** Turns the key of a route into the authorization of one request. */
export class Authorizer {
  readonly #post: PostForm;
  readonly #tokens = new Map<string, { readonly token: string; readonly until: number }>();

  constructor(post: PostForm) {
    this.#post = post;
  }

  async of({ auth, provider }: ModelRoute, key: string, outgoing: Outgoing): Promise<Authorization> {
    if ("header" in auth) {
      const text = auth.scheme === undefined ? key : `${auth.scheme} ${key}`;
      return { headers: { [auth.header]: [text] }, secrets: [key] };
    }
    if ("awsRegion" in auth) return signForAws(key, auth.awsRegion, outgoing);
    const account = parseAccount(key);
    if (account === undefined)
      throw unusable(provider, "GOOGLE_SERVICE_ACCOUNT_KEY is not the JSON of a key file");
    const token = await this.#googleToken(account, { provider, url: auth.googleTokenUrl });
    return { headers: { authorization: [`Bearer ${token}`] }, secrets: [token, account.key] };
  }

  /** An access token of the service account: kept for most of its life, as it is the same for all requests. */
  async #googleToken(
    account: Account,
    { provider, url }: { provider: string; url: string },
  ): Promise<string> {
    const known = this.#tokens.get(account.email);
    if (known !== undefined && known.until > Date.now()) return known.token;
    const form = new URLSearchParams({
      grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer",
      assertion: toAssertion(account, url),
    });
    const { status, text } = await this.#post(url, form.toString());
    const answer = parse(text);
    const token = asText(answer["access_token"]);
    if (status !== 200 || token === undefined)
      throw unusable(provider, `its token endpoint answered with ${status}`);
    const seconds = typeof answer["expires_in"] === "number" ? answer["expires_in"] : 0;
    this.#tokens.set(account.email, { token, until: Date.now() + (seconds - MARGIN_S) * 1_000 });
    return token;
  }
}

/** Tokens are renewed this long before their end. */
const MARGIN_S = 120;

/** Signature Version 4 over the body, the path and the host. All other headers pass unsigned. */
async function signForAws(
  key: string,
  region: string,
  { method, url, body }: Outgoing,
): Promise<Authorization> {
  const given = parse(key);
  const [id, secret] = [asText(given["AWS_ACCESS_KEY_ID"]), asText(given["AWS_SECRET_ACCESS_KEY"])];
  if (id === undefined || secret === undefined)
    throw unusable("bedrock", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY belong together");
  const sessionToken = asText(given["AWS_SESSION_TOKEN"]);
  const signer = new AwsV4Signer({
    method,
    url,
    body: new Uint8Array(body),
    accessKeyId: id,
    secretAccessKey: secret,
    ...(sessionToken === undefined ? {} : { sessionToken }),
    service: "bedrock",
    region,
  });
  const { headers } = await signer.sign();
  const kept = [...headers].filter(([name]) => name === "authorization" || name.startsWith("x-amz-"));
  return {
    headers: Object.fromEntries(kept.map(([name, value]) => [name, [value]])),
    // The service quotes a signature that it does not accept.
    secrets: [secret, ...(sessionToken === undefined ? [] : [sessionToken]), ...signatureOf(kept), id],
  };
}

function signatureOf(headers: readonly (readonly [string, string])[]): string[] {
  const text = headers.find(([name]) => name === "authorization")?.[1] ?? "";
  return [/Signature=([0-9a-f]+)/.exec(text)?.[1] ?? []].flat();
}

interface Account {
  readonly email: string;
  readonly key: string;
  readonly keyId?: string;
}

function parseAccount(text: string): Account | undefined {
  const file = parse(text);
  const [email, key, keyId] = [file["client_email"], file["private_key"], file["private_key_id"]].map(asText);
  if (email === undefined || key === undefined) return undefined;
  return { email, key, ...(keyId === undefined ? {} : { keyId }) };
}

/** The signed claim of a service account (RFC 7523). */
function toAssertion({ email, key, keyId }: Account, audience: string): string {
  const now = Math.floor(Date.now() / 1_000);
  const head = { alg: "RS256", typ: "JWT", ...(keyId === undefined ? {} : { kid: keyId }) };
  const scope = "https://www.googleapis.com/auth/cloud-platform";
  const claims = { iss: email, scope, aud: audience, iat: now, exp: now + 3_600 };
  const text = [head, claims]
    .map((part) => Buffer.from(JSON.stringify(part)).toString("base64url"))
    .join(".");
  try {
    return `${text}.${createSign("RSA-SHA256").update(text).sign(key).toString("base64url")}`;
  } catch {
    throw unusable("vertex", "the private key of GOOGLE_SERVICE_ACCOUNT_KEY cannot sign");
  }
}

function unusable(provider: string, why: string): Refusal {
  return new Refusal(401, "credential", `sluice: the credential for ${provider} cannot be used: ${why}.`);
}

function parse(text: string): Json {
  try {
    return asObject(JSON.parse(text));
  } catch {
    return {};
  }
}
