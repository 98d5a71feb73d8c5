// A library that has nothing that anybody asks for.
extern "C" int omnibalHollow() { return 0; }
