import type { Server } from "node:http";
import type { ModelRoute } from "../../../contract/process.ts";
import { createBroken, createCassette, type ReadScrub } from "../../../gateway/cassette/cassette.ts";
import { moveFolders } from "../../../gateway/cassette/scrub.ts";
import type { Tape } from "../../../gateway/cassette/tape.ts";
import { Desk, type DeskAnswer } from "../../../gateway/desk.ts";
import type { Answerer } from "../../../gateway/forward.ts";
import { Ledger } from "../../../gateway/limits/ledger.ts";
import { createGateway } from "../../../gateway/listener.ts";
import { loadPricing } from "../../../gateway/pricing.ts";
import { createProvider } from "../../../gateway/model-provider.ts";
import { RateLimiter } from "../../../gateway/limits/rates.ts";
import { createRuled } from "../../../gateway/model-rules.ts";
import type { RecordWriter } from "../../../gateway/record.ts";
import { parseHostPatterns, toHosts } from "../allow-list.ts";
import { toGatewayNames } from "../gateway.ts";
import type { GatewaySettings } from "../protocol.ts";
import { dial, type DialOptions } from "./dial.ts";
import { Scrubber } from "./scrubber.ts";
import { SecretForms } from "./secret-forms.ts";

interface GatewayParts extends Omit<DialOptions, "patterns"> {
  readonly records: RecordWriter;
  /** The session's cassette, or the reason for which it could not be opened. */
  readonly tape: Tape | Error | undefined;
}

/**
 * The model gateway of this sandbox. It reaches the hosts of its routes and no others. Their addresses are checked like
 * those of the sandbox's own connections.
 */
export function createModelGateway(
  { launch, port }: GatewaySettings,
  { records, tape, ...ways }: GatewayParts,
): Server {
  const { routes } = launch;
  const desk = new Desk(launch.desk);
  // Read ahead, so that the first request does not wait for the key.
  void desk.read();
  const patterns = parseHostPatterns(toHosts(routes.flatMap(addressesOf)));
  // An agent without a network of its own reaches a private network anyway.
  const options = { ...ways, patterns, ...(port === undefined ? {} : { privates: patterns }) };
  const provider = createProvider({ desk, dial: (host, port) => dial(host, port, options) });
  const answerer = withCassette(createRuled(provider, { desk, records }), { launch, desk, tape, records });
  const ledger = new Ledger({ desk, records, loadPricing });
  const rates = launch.cassette?.mode === "replay" ? undefined : new RateLimiter({ desk, records });
  const hosts = toGatewayNames(port);
  return createGateway({ routes, token: desk.token, answerer, records, ledger, rates, hosts });
}

/** The addresses that a route may need. */
function addressesOf({ upstream, lists, auth }: ModelRoute): string[] {
  const token = "googleTokenUrl" in auth ? [auth.googleTokenUrl] : [];
  return [upstream, ...(lists === undefined ? [] : [lists]), ...token];
}

interface CassetteParts extends Pick<GatewaySettings, "launch">, Pick<GatewayParts, "tape" | "records"> {
  readonly desk: Desk;
}

/** Puts the session's cassette, if it has one, in front of the model provider. A replay asks no model provider. */
function withCassette(provider: Answerer, { launch, desk, tape, records }: CassetteParts): Answerer {
  const { cassette } = launch;
  if (cassette === undefined || tape === undefined) return provider;
  if (tape instanceof Error) return createBroken(tape.message);
  return createCassette({
    launch: cassette,
    tape,
    provider: cassette.mode === "replay" ? undefined : provider,
    readScrub: createReadScrub(desk),
    records,
  });
}

/** The forms of the session's secrets are made once for each answer of the desk. */
function createReadScrub(desk: Desk): ReadScrub {
  let known: DeskAnswer | undefined;
  let forms: SecretForms | undefined;
  return async () => {
    const answer = await desk.read();
    if (answer === undefined) return undefined;
    if (answer !== known) forms = new SecretForms(answer.hidden ?? []);
    known = answer;
    const made = forms as SecretForms;
    const { folders = [] } = answer;
    const move = moveFolders(folders, "recorded");
    return {
      hasKey: Object.keys(answer.keys).length > 0,
      scrub: (bytes) => {
        const scrubber = new Scrubber(made);
        return Buffer.concat([scrubber.write(move(bytes)), scrubber.end()]);
      },
      ...(folders.length === 0 ? {} : { restore: moveFolders(folders, "here") }),
    };
  };
}
