/** What is wrong with a script, and where: said to the user as it is. */
export class BadScript extends Error {}
