import { SluiceError } from "../../../contract/index.ts";

/** A request that has the right form and asks for what cannot be; `errorCode` is one that the SDK has a class for. */
export function refuse(detail: string, errorCode?: string): SluiceError {
  return new SluiceError("invalid_request", detail, errorCode === undefined ? {} : { errorCode });
}

/** What the official service offers and this one does not. */
export function unsupported(what: string): SluiceError {
  return refuse(`${what} not supported here. Leave it out.`);
}
